"""Claims about the site: it is built whole, without a warning, and nothing in it asks for a network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from places import ROOT, SOURCE

DOCS = ROOT / "docs"
LOADS = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-c", DOCS, source, out]
    path = {"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin", "HOME": str(out.parent)}
    return subprocess.run(words, capture_output=True, text=True, env=path, timeout=300)


class Loaded(HTMLParser):
    """Collects what a browser fetches by itself as it opens a page, which links to click are not."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "search", "index", "next", "prev", "author"):
            return
        self.found += [str(given[LOADS[tag]])] if given.get(LOADS.get(tag, "")) else []


def test_the_site_is_built_whole_and_needs_no_network(tmp_path: Path) -> None:
    out = tmp_path / "site"
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr
    for path in DOCS.rglob("*.md"):
        assert (out / path.relative_to(DOCS).with_suffix(".html")).exists(), path
    foreign = []
    for html in out.rglob("*.html"):
        if "_downloads" in html.parts:
            continue
        seen = Loaded()
        seen.feed(html.read_text())
        foreign += [f"{html.name}: {url}" for url in seen.found if re.match(r"(https?:)?//", url)]
    for sheet in out.rglob("*.css"):
        foreign += re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^\s)]+", sheet.read_text())
    assert foreign == []
    assert (out / "searchindex.js").read_text().startswith("Search.setIndex("), (
        "a script, so that file:// may load it"
    )
    cli, card = (out / "reference" / f"{name}.html" for name in ("cli", "policy-card"))
    assert "--minibatches" in cli.read_text()
    for verb in ("train", "evaluate", "panel-show", "study-parallelism"):
        assert f'id="surefoot-{verb}"' in cli.read_text()
    assert "r_ank_roll" in card.read_text()
    assert "made:" not in card.read_text()


def test_broken_links_missing_anchors_and_orphans_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (source / "index.md").write_text(
        "# Home\n\n[a](nowhere.md) [b](#no-such-heading) [c](other.md#nor-this)\n"
    )
    (source / "other.md").write_text("# Other\n")
    done = build(source, tmp_path / "out")
    assert done.returncode != 0
    for complaint in ("nowhere.md", "no-such-heading", "nor-this"):
        assert complaint in done.stderr, complaint
    assert re.search(r"other\.md.*isn't included in any toctree", done.stderr)
