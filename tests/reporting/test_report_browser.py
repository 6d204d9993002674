"""The report in a real browser: Debian's Chromium without a window, WebGL in software."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from surefoot.reporting import make_server, write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no Chromium is installed (Debian: apt-get install chromium)", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (dev extra)")

FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
LAPTOP, PHONE = (1280, 800), (390, 844)
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a page; the test fails if it wrote an error to the console or asked for anything else. Robots
    stand until told to walk, unless `moving`: pictures are dear without a GPU."""
    said: list[str] = []
    contexts = []

    def opened(
        url: str,
        size: tuple[int, int] = LAPTOP,
        dark: bool = False,
        before: str = "",
        moving: bool = False,
    ) -> Any:
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="no-preference" if moving else "reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(before)
        page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: said.append(str(e)))
        page.on(
            "request", lambda r: said.append(r.url) if not r.url.startswith((url[:16], "data:")) else None
        )
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    # What the software renderer says of its own speed is not the page's doing.
    assert [s for s in said if "GPU stall" not in s and "software" not in s.lower()] == []


@pytest.fixture(scope="module")
def report(extended_run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report([extended_run], tmp_path_factory.mktemp("page") / "report.html", 2.0).as_uri()


@pytest.fixture(scope="module")
def plain_report(plain_run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report([plain_run], tmp_path_factory.mktemp("page") / "report.html").as_uri()


def pixels(page: Any, of: str = ".all") -> list[int]:
    """A digest of the picture, its mean colour and how many colours it has."""
    found: list[int] = page.evaluate(
        """(of) => {
            const c = document.querySelector(`${of} .view`), seen = new Set();
            const copy = document.createElement('canvas');
            [copy.width, copy.height] = [c.width, c.height];
            const ctx = copy.getContext('2d', { willReadFrequently: true });
            ctx.drawImage(c, 0, 0);
            const p = ctx.getImageData(0, 0, c.width, c.height).data;
            let digest = 0, sum = 0;
            for (let i = 0; i < p.length; i += 4) {
                const v = p[i] | (p[i + 1] << 8) | (p[i + 2] << 16);
                digest = (digest * 31 + v) | 0;
                sum += p[i];
                seen.add(v);
            }
            return [digest, Math.round((4 * sum) / p.length), seen.size];
        }""",
        of,
    )
    return found


def show_replay(page: Any) -> None:
    page.locator(".all").scroll_into_view_if_needed()
    page.wait_for_selector(".all[data-ready]", timeout=30_000)


def show_hero(page: Any) -> None:
    """Waits for the robot beside the verdict, which stands still."""
    page.wait_for_selector(".hero[data-ready]", timeout=30_000)
    page.wait_for_selector(".hero .play:text('▶')", timeout=5_000)


def test_loads_from_disk_with_every_chart_drawn(open_page: Open, report: str) -> None:
    page = open_page(report)
    assert page.locator("svg.chart:visible").count() == 4 + 1  # learning, and one of all perturbations
    for chart in page.locator("svg.chart:visible").all():
        box = chart.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 80
        assert chart.locator("path.line, path.area, circle.dot").count() > 0
    assert page.locator(".heat .cell:visible").count() > 0
    assert page.locator(".forest.stratum .row [data-figure]:visible").count() > 4
    assert page.locator(".tile").count() == 8


def test_today_s_run_loads_too(open_page: Open, plain_report: str) -> None:
    page = open_page(plain_report)
    show_replay(page)
    assert page.locator(".absent:visible").count() > 5


def test_replay_moves_while_playing_and_stands_when_paused(open_page: Open, report: str) -> None:
    page = open_page(report)
    show_replay(page)
    page.locator(".episode").last.click()
    page.wait_for_timeout(200)
    first = pixels(page)
    assert first[2] > 50, "the scene has hardly any colours: nothing is drawn"
    page.locator(".all .play").click()
    page.wait_for_timeout(700)
    second = pixels(page)
    page.locator(".all .play").click()
    page.wait_for_timeout(100)
    third = pixels(page)
    page.wait_for_timeout(300)
    assert first[0] != second[0]
    assert pixels(page)[0] == third[0]
    assert float(page.locator(".all .clock").inner_text().split()[0]) > 0


def test_replay_scrubs_turns_and_changes_episode(open_page: Open, report: str) -> None:
    page = open_page(report)
    show_replay(page)
    seen = {pixels(page)[0]}
    page.locator(".all .scrub").evaluate(
        "e => { e.value = Math.round(e.max / 2); e.dispatchEvent(new Event('input')); }"
    )
    seen.add(pixels(page)[0])
    box = page.locator(".all .view").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 170)
    page.mouse.up()
    seen.add(pixels(page)[0])
    page.mouse.wheel(0, 300)
    page.wait_for_timeout(100)
    seen.add(pixels(page)[0])
    page.locator(".episode").nth(2).click()
    page.wait_for_timeout(200)
    seen.add(pixels(page)[0])
    assert len(seen) == 5
    assert page.locator(".episode[aria-pressed=true]").count() == 1


def test_plots_follow_the_picture(open_page: Open, report: str) -> None:
    page = open_page(report)
    show_replay(page)
    before = page.locator(".plot").first.evaluate("c => c.toDataURL()")
    page.locator(".plot").first.click(position={"x": 150, "y": 40})
    assert page.locator(".plot").first.evaluate("c => c.toDataURL()") != before
    assert float(page.locator(".all .clock").inner_text().split()[0]) > 0


def test_dark_page_is_dark(open_page: Open, report: str) -> None:
    shades = {}
    for dark in (False, True):
        page = open_page(report, dark=dark)
        show_replay(page)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[dark] = (sum(map(int, background[4:-1].split(","))), pixels(page)[1])
    assert shades[True][0] < 120 < 600 < shades[False][0]
    assert shades[True][1] < shades[False][1] - 60


def test_the_robot_walks_beside_the_verdict(open_page: Open, report: str) -> None:
    page = open_page(report, moving=True)
    page.wait_for_selector(".hero[data-ready]", timeout=30_000)
    first = pixels(page, ".hero")
    page.wait_for_timeout(400)
    assert first[2] > 50, "nothing is drawn"
    assert pixels(page, ".hero")[0] != first[0], "it does not move by itself"
    show = page.locator(".hero .view").bounding_box()
    verdict = page.locator(".verdict").bounding_box()
    assert show["x"] >= verdict["x"] + verdict["width"]
    assert show["y"] + show["height"] < LAPTOP[1]
    assert page.locator(".hero .caption").inner_text().startswith("A success among the")


def test_on_a_phone_the_robot_comes_right_below_the_verdict(open_page: Open, report: str) -> None:
    page = open_page(report, size=PHONE)
    hero, verdict = (page.locator(s).bounding_box() for s in (".hero", ".verdict"))
    assert 0 <= hero["y"] - verdict["y"] - verdict["height"] < 40


def test_the_slider_over_evaluations_shows_earlier_policies(open_page: Open, report: str) -> None:
    page = open_page(report)
    show_hero(page)
    result = pixels(page, ".hero")[0]
    page.locator(".hero .stop").evaluate("e => { e.value = 0; e.dispatchEvent(new Event('input')); }")
    page.wait_for_selector(".hero .caption:text('After update')")
    page.wait_for_timeout(200)
    assert pixels(page, ".hero")[0] != result
    assert "update" in page.locator(".learn output").inner_text()
    assert page.locator(".learn li.on").count() == 1


def test_keys_step_frames_and_loop(open_page: Open, report: str) -> None:
    page = open_page(report)
    show_hero(page)
    page.locator(".hero .view").focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    hz = page.evaluate("document.querySelector('.hero').player.episode.hz")
    assert page.evaluate("document.querySelector('.hero').player.time") == pytest.approx(2 / hz)
    page.keyboard.press("l")
    assert page.locator(".hero .loop").get_attribute("aria-pressed") == "false"
    page.keyboard.press(" ")
    page.keyboard.press("End")
    page.wait_for_selector(".hero .play:text('▶')")


def test_a_push_is_marked_on_the_slider_and_drawn(open_page: Open, report: str) -> None:
    page = open_page(report)
    show_replay(page)
    drawn = """() => {
        const p = document.querySelector('.all').player, e = p.episode;
        e.events = [{t: 0.5 * p.length, kind: 'push', v: [0.8, 0.1], text: 'push 0.81 m/s'},
                    {t: 0.9 * p.length, kind: 'command', text: 'command 1 m/s ahead'}];
        p.mark(); p.seek(0.5 * p.length);
        return p.scene(1.6).words.map((w) => w.text);
    }"""
    assert page.evaluate(drawn) == ["push 0.81 m/s"]
    marks = page.locator(".all .event")
    assert [m.get_attribute("class") for m in marks.all()] == ["event push", "event command"]
    track, mark = page.locator(".all .scrub").bounding_box(), marks.first.bounding_box()
    middle = mark["x"] + mark["width"] / 2
    assert middle == pytest.approx(track["x"] + track["width"] / 2, abs=3)
    page.evaluate("document.querySelector('.all').player.seek(0)")
    marks.first.click()
    assert page.evaluate("document.querySelector('.all').player.time") > 0


def test_an_address_opens_its_episode_and_shows_its_card(open_page: Open, report: str) -> None:
    page = open_page(report)
    last = page.locator(".episode").last.get_attribute("id")
    page = open_page(f"{report}#{last}")
    page.wait_for_selector(f"[id='{last}'][aria-pressed=true]")
    card, cards = (page.locator(s).bounding_box() for s in (f"[id='{last}']", ".cards"))
    assert cards["y"] <= card["y"]
    assert card["y"] + card["height"] <= cards["y"] + cards["height"] + 1
    assert 0 <= page.locator(".all .view").bounding_box()["y"] < LAPTOP[1]


def test_successes_can_be_found(open_page: Open, report: str) -> None:
    page = open_page(report)
    show_replay(page)
    page.locator(".filters button", has_text="Successes").click()
    shown = page.locator(".episode:visible")
    assert shown.count() > 0
    assert all("good" in c.get_attribute("class") for c in shown.all())
    page.wait_for_selector(".episode.good[aria-pressed=true]")


def test_without_webgl_the_robot_is_drawn_flat(open_page: Open, report: str) -> None:
    page = open_page(
        report,
        before="""const real = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            return kind === "webgl" ? null : real.call(this, kind, ...rest); };""",
    )
    show_hero(page)
    page.locator(".hero .view").focus()
    page.keyboard.press("Home")
    first = pixels(page, ".hero")
    page.keyboard.press("End")
    assert first[2] > 20, "nothing is drawn"
    assert pixels(page, ".hero")[0] != first[0]


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_width_scrolls_sideways(open_page: Open, report: str, width: int) -> None:
    page = open_page(report, size=(width, 800))
    show_replay(page)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    smallest = page.evaluate(
        """Math.min(...[...document.querySelectorAll('svg.chart')].filter(s => s.clientWidth)
        .map(s => 12 * s.clientWidth / s.viewBox.baseVal.width))"""
    )
    assert smallest > 8.5, "text in a chart is too small to read"


def test_words_explain_themselves(open_page: Open, report: str) -> None:
    page = open_page(report)
    page.locator(".tile .word").first.hover()
    assert page.locator("#tip.on").inner_text().startswith("The episode did not end early")
    chart = page.locator("svg.chart:visible").first
    chart.scroll_into_view_if_needed()
    page.wait_for_timeout(200)  # scrolling hides what was shown before
    chart.hover()
    assert "success" in page.locator("#tip.on").inner_text()


def test_index_sorts_and_compares(open_page: Open, tiny_run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(tiny_run, tmp_path / name)
    server = make_server(tmp_path, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        page = open_page(server.url)
        names = [r.inner_text() for r in page.locator(".runs tbody a").all()]
        assert names == ["a", "b"]
        page.locator("th button", has_text="run").first.click()
        page.locator("th button", has_text="run").first.click()
        assert [r.inner_text() for r in page.locator(".runs tbody a").all()] == ["b", "a"]
        assert page.locator(".go").is_disabled()
        for box in page.locator("input[type=checkbox]").all():
            box.check()
        page.locator(".go").click()
        assert page.locator("h2", has_text="Side by side").count() == 1
        assert page.locator("details.run").count() == 2
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# ---- the page as it is read


def top(page: Any, place: str) -> float:
    found: float = page.locator(place).first.evaluate("e => e.getBoundingClientRect().top")
    return found


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_contents_stay_in_sight_and_lead_to_every_section(
    open_page: Open, report: str, size: tuple[int, int]
) -> None:
    page = open_page(report, size=size)
    links = page.locator(".contents a")
    assert links.count() >= 10
    for k in range(links.count()):
        target = links.nth(k).get_attribute("href")
        links.nth(k).click()
        page.wait_for_timeout(80)
        assert -2 <= top(page, ".contents") <= 2 or k == 0, "the contents are gone from the screen"
        seen = top(page, target)
        at_the_end = page.evaluate("innerHeight + scrollY >= document.documentElement.scrollHeight - 4")
        assert 0 <= seen < 120 or at_the_end, target
    assert page.locator(".contents a[aria-current]").count() == 1
    box = page.locator(".contents a[aria-current]").bounding_box()
    assert 0 <= box["x"] < size[0] - 20, "the marked link is out of sight"


def test_a_phone_shows_all_of_every_perturbation(open_page: Open, report: str) -> None:
    page = open_page(report, size=(400, 860))
    rows = page.locator(".columns tbody tr")
    assert rows.count() > 10
    outside = page.evaluate(
        """[...document.querySelectorAll('.columns tbody tr > *')].filter(c => c.offsetWidth && c.textContent)
        .filter(c => c.getBoundingClientRect().right > innerWidth - 10).map(c => c.textContent)"""
    )
    assert outside == []
    first = rows.nth(2)
    assert {"falls", "error, m/s", "n_eff"} <= {
        c.evaluate("e => getComputedStyle(e, '::before').content").strip('"')
        for c in first.locator("td.num").all()
    }
    assert page.locator(".strips:visible").count() == 1


def test_labels_on_the_strip_chart_do_not_touch(open_page: Open, report: str) -> None:
    for width in (400, 800, 1280):
        page = open_page(report, size=(width, 860))
        touching = page.evaluate(
            """() => {
                const svg = [...document.querySelectorAll('.strips')].find(s => s.clientWidth);
                const texts = [...svg.querySelectorAll('text')];
                const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
                const out = [];
                boxes.forEach(([a, x], i) => boxes.slice(i + 1).forEach(([b, y]) => {
                    if (x.left < y.right && y.left < x.right && x.top + 3 < y.bottom && y.top + 3 < x.bottom)
                        out.push([a, b]);
                }));
                return out;
            }"""
        )
        assert touching == [], width
        dot = page.locator(".strips:visible .at .dot").first
        dot.scroll_into_view_if_needed()
        page.wait_for_timeout(200)  # scrolling hides what was shown before
        dot.hover()
        assert "success" in page.locator("#tip.on").inner_text()


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_no_tile_or_gauge_stands_alone_in_its_row(open_page: Open, report: str, width: int) -> None:
    page = open_page(report, size=(width, 860))
    for kind in (".tiles .tile", "#honesty .gauge", "#freshness .gauge"):
        tops = [round(e.bounding_box()["y"]) for e in page.locator(kind).all()]
        rows = [tops.count(t) for t in sorted(set(tops))]
        assert len(set(rows)) == 1, (kind, rows)
        assert rows[0] > 1, (kind, rows)


def test_a_table_that_is_wider_than_the_screen_says_so(open_page: Open, report: str) -> None:
    page = open_page(report, size=(400, 860))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    wide = page.evaluate(
        """[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth + 1)
        .map(s => getComputedStyle(s).backgroundImage.split('gradient').length - 1)"""
    )
    assert wide, "no table is wider than a phone; nothing is tested"
    assert set(wide) == {4}


def test_the_caveat_stands_in_the_verdict_bar(open_page: Open, extended_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(extended_run, run)
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"status": "interrupted"}))
    page = open_page(write_report([run], tmp_path / "r.html").as_uri())
    box = page.locator(".verdict .caveat").bounding_box()
    assert box["y"] + box["height"] < 500, "it must be seen without scrolling"
    assert "resumed" in page.locator(".verdict .caveat").inner_text()
