"""The server answers with reports of runs in its folder, and with nothing else."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from surefoot.contract import SurefootError
from surefoot.reporting import make_server
from surefoot.reporting.serve import Server


@pytest.fixture(scope="module")
def runs(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    (root / "secret.txt").write_text("the secret")
    runs = root / "runs"
    shutil.copytree(tiny_run, runs / "first run")
    shutil.copytree(tiny_run, runs / "second")
    shutil.copytree(tiny_run, root / "outside")
    (runs / "linked").symlink_to(root / "outside")
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text('{"schema_version": 1}')
    (runs / "notes.txt").write_text("not a run")
    return runs


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Server]:
    server = make_server(runs, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(
    server: Server, target: str, method: str = "GET", host: str | None = None
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.putrequest(method, target, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_address[1]}")
    connection.endheaders()
    response = connection.getresponse()
    return response.status, response.read().decode(), {k.lower(): v for k, v in response.getheaders()}


def test_index_lists_runs_and_says_what_is_broken(server: Server) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert 'href="/run/first%20run"' in page
    assert "field &#x27;" in page
    assert "linked" not in page
    assert "notes" not in page
    assert "default-src 'none'" in headers["content-security-policy"]


def test_report_and_comparison(server: Server) -> None:
    status, page, _ = ask(server, "/run/first%20run")
    assert status == 200
    assert 'data-figure="success"' in page
    status, page, _ = ask(server, "/compare?run=first+run&run=second")
    assert status == 200
    assert "Side by side" in page


def test_page_is_kept_until_the_run_changes(server: Server, runs: Path) -> None:
    before = server.library.report(["second"])
    assert server.library.report(["second"]) is before
    ledger = runs / "second" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes() + b'{"update":7')
    after = server.library.report(["second"])
    assert after is not None
    assert b"cut off" in after


@pytest.mark.parametrize(
    "target",
    [
        "/run/../secret.txt",
        "/run/..%2Fsecret.txt",
        "/run/%2e%2e%2fsecret.txt",
        "/run/..%2Foutside",
        "/run/first%20run/../../../secret.txt",
        "/run/first%20run%2Frun.json",
        "/run/linked",
        "/run/.",
        "/run/..",
        "/run/",
        "/run/%00",
        "/run/%ff%fe",
        "/../../../../etc/passwd",
        "//etc/passwd",
        "/secret.txt",
        "/first run/run.json".replace(" ", "%20"),
        "/compare",
        "/compare?run=../outside",
        "/compare?run=first+run&run=nowhere",
        "/compare?" + "&".join(f"run=r{i}" for i in range(100)),
        "/nothing",
    ],
)
def test_anything_else_is_not_found(server: Server, target: str) -> None:
    status, page, _ = ask(server, target)
    assert status == 404
    assert "the secret" not in page
    assert "root:" not in page
    assert "data-figure" not in page


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"]
)
def test_only_reading_is_allowed(server: Server, runs: Path, method: str) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in runs.rglob("*"))
    status, _, headers = ask(server, "/run/second", method)
    assert status == 405
    assert headers["allow"] == "GET, HEAD"
    assert sorted((p, p.stat().st_mtime_ns) for p in runs.rglob("*")) == before


@pytest.mark.parametrize("target", ["/", "/run/second", "/nothing", "/run/broken"])
def test_no_page_may_be_framed(server: Server, target: str) -> None:
    _, _, headers = ask(server, target)
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"


def test_names_and_files_of_others_are_escaped(server: Server, runs: Path) -> None:
    evil = runs / "<img src=x onerror=alert(1)>\"'&"
    shutil.copytree(runs / "first run", evil)
    try:
        record = json.loads((evil / "run.json").read_text())
        record |= {"id": "<script>alert(2)</script>", "task": "<b onclick=1>", "status": "running"}
        (evil / "run.json").write_text(json.dumps(record))
        (evil / "ledger.jsonl").write_text('{"update": 1, "steps_per_second": 5.0, "x": "<i>"}\n')
        index = ask(server, "/")[1]
        report = ask(server, "/run/" + quote(evil.name, safe=""))[1]
    finally:
        shutil.rmtree(evil)
    for page in (index, report):
        assert "<img" not in page
        assert "<b onclick" not in page
        assert "<script>alert" not in page
    assert "&lt;img src=x" in index


def test_head_has_no_body(server: Server) -> None:
    status, page, headers = ask(server, "/", "HEAD")
    assert (status, page) == (200, "")
    assert int(headers["content-length"]) > 1000


def test_reading_writes_nothing(server: Server, runs: Path) -> None:
    before = sorted(p for p in runs.rglob("*"))
    ask(server, "/run/second")
    assert sorted(p for p in runs.rglob("*")) == before


def test_broken_run_is_one_sentence(server: Server) -> None:
    status, page, _ = ask(server, "/run/broken")
    assert status == 422
    assert "field" in page


def test_other_hosts_names_are_refused(server: Server) -> None:
    """A page elsewhere that rebinds its name to this machine does not get to read the runs."""
    assert ask(server, "/", host="evil.example")[0] == 421
    assert ask(server, "/", host="localhost:1")[0] == 200
    assert ask(server, "/", host="[::1]:1")[0] == 200


def test_listens_on_this_machine_by_default() -> None:
    from surefoot.cli.report import ServeCommand

    assert ServeCommand().host == "127.0.0.1"


def test_bad_input_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SurefootError, match="no folder"):
        make_server(tmp_path / "nowhere", "127.0.0.1", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SurefootError, match="Cannot listen"):
            make_server(runs, "127.0.0.1", taken.getsockname()[1])
    with pytest.raises(SurefootError, match="Cannot listen"):
        make_server(runs, "127.0.0.1", 99_999)
