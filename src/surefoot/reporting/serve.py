"""`surefoot serve`: the reports of all runs over HTTP. Read-only; no part of a request becomes a path.

A run is asked for by name and looked up in the list of run folders, so there is nothing to traverse. Only GET
and HEAD are answered. Bound to this machine it answers only requests that name this machine as their host,
which keeps other sites' pages from reading it through the browser.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from surefoot.contract import SurefootError
from surefoot.reporting.figures import read_run
from surefoot.reporting.index import SERVED_POLICY, entries, find_runs, index_page
from surefoot.reporting.page import document, report_page
from surefoot.reporting.web.html import el
from surefoot.runs import AUDIT

MOST_RUNS = 8
"""Most runs in one comparison."""


class Library:
    """Pages of a folder of runs, kept while the files they were made from stay as they are."""

    def __init__(self, root: Path, dollars_per_hour: float | None = None, keep: int = 8) -> None:
        self.root, self.dollars_per_hour, self.keep = root, dollars_per_hour, keep
        self._pages: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def index(self) -> bytes:
        return index_page(entries(find_runs(self.root)), self.root).encode()

    def report(self, names: Sequence[str]) -> bytes | None:
        """Writes the report of these runs; None when one of them is not a run here."""
        runs = find_runs(self.root)
        wanted = list(dict.fromkeys(names))
        if not wanted or len(wanted) > MOST_RUNS or any(n not in runs for n in wanted):
            return None
        key = tuple((n, _state(runs[n])) for n in wanted)
        with self._lock:  # one page is made at a time; the others wait rather than share the cores
            if key not in self._pages:
                figures = [read_run(runs[n]) for n in wanted]
                self._pages[key] = report_page(figures, self.dollars_per_hour, back="/").encode()
                while len(self._pages) > self.keep:
                    self._pages.popitem(last=False)
            return self._pages[key]


def _state(run: Path) -> tuple[tuple[int, int], ...]:
    """Times and sizes of what a report is made from."""
    files = [
        run / "run.json",
        run / "ledger.jsonl",
        run / AUDIT,
        *sorted(run.glob("panels/*/*/summary.json")),
    ]
    stats = [f.stat() for f in files if f.is_file()]
    return tuple((s.st_mtime_ns, s.st_size) for s in stats)


class Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "Surefoot"
    sys_version = ""

    def do_GET(self) -> None:
        if not self.server.allows(self.headers.get("Host", "")):
            return self._page(
                HTTPStatus.MISDIRECTED_REQUEST, _message("This server answers only to its own name.")
            )
        status, page = self.server.answer(self.path)
        self._page(status, page)

    do_HEAD = do_GET

    def _page(self, status: HTTPStatus, page: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Content-Security-Policy", SERVED_POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Frame-Options", "DENY")
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers what other methods ask for as well: 501 from the base class, as 405."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self.close_connection = True
        self._page(status, _message(message or status.phrase))

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the terminal belongs to whoever started it."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, library: Library, host: str, port: int) -> None:
        self.library = library
        super().__init__((host, port), Handler)
        self.local = _is_loopback(host)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"

    def allows(self, host: str) -> bool:
        name = urlsplit(f"//{host}").hostname or ""
        return not self.local or name == "localhost" or _is_loopback(name)

    def answer(self, target: str) -> tuple[HTTPStatus, bytes]:
        url = urlsplit(target)
        try:
            if url.path == "/":
                return HTTPStatus.OK, self.library.index()
            page = None
            if url.path == "/compare":
                page = self.library.report(parse_qs(url.query).get("run", []))
            elif url.path.startswith("/run/"):
                page = self.library.report([unquote(url.path.removeprefix("/run/"))])
            if page is not None:
                return HTTPStatus.OK, page
            return HTTPStatus.NOT_FOUND, _message("There is no such run or page.")
        except SurefootError as error:
            return HTTPStatus.UNPROCESSABLE_ENTITY, _message(str(error))
        except ValueError:  # a target that is no URL
            return HTTPStatus.BAD_REQUEST, _message("This is not an address of this server.")


def make_server(runs: str | Path, host: str, port: int, dollars_per_hour: float | None = None) -> Server:
    root = Path(runs)
    if not root.is_dir():
        raise SurefootError(f"There is no folder '{root}'; give the folder of your runs with --runs.")
    try:
        return Server(Library(root, dollars_per_hour), host, port)
    except (OSError, OverflowError) as error:
        raise SurefootError(
            f"Cannot listen on {host}:{port} ({error}); choose another --port or --host."
        ) from error


def _message(text: str) -> bytes:
    body = el(
        "main",
        el("section", el("h1", "Surefoot"), el("p", text), el("a", "All runs", href="/"), class_="card"),
    )
    return document("Surefoot", body).encode()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
