"""The report of runs under way, served on this machine only.

The page is the one that would be written to disk; a script more asks for `data.json` every few seconds.
Runs are read without their lock, and only read again when their files have changed. The server listens on
the loopback address and answers only requests that name it (`Host`), so that no page on the internet can
read a run through a name that it points here.
"""

import contextlib
import hashlib
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from atlas_gym.experiments.report.comparison import group_runs
from atlas_gym.experiments.report.data import RunData, intelligible
from atlas_gym.experiments.report.payload import build_payload
from atlas_gym.experiments.report.pictures import Picture, draw_pictures
from atlas_gym.experiments.report.tables import all_tables
from atlas_gym.experiments.report.write import page_title, read_runs, render_page

LOOPBACK = "127.0.0.1"


class LiveReport:
    """The current report of some runs.

    Args:
        folders: the run folders.
        pictures: whether to draw the environment's pictures, anew whenever a better program is found.

    Raises:
        StoreError: a folder holds no run, or a damaged one.
    """

    def __init__(self, folders: Sequence[Path], pictures: bool = True):
        self._folders = [Path(folder) for folder in folders]
        self._pictures = pictures
        self._drawn: dict[tuple[str, str | None], list[Picture]] = {}
        self._lock = threading.Lock()
        self._stamp: tuple = ()
        self._payload: dict[str, Any] = {}
        self._title = ""
        self.refresh()

    def refresh(self) -> None:
        """Read the runs again if they have changed."""
        with self._lock:
            stamp = tuple(_stamp(folder) for folder in self._folders)
            if stamp == self._stamp:
                return
            runs = read_runs(self._folders)
            with intelligible("What these runs hold cannot be shown"):
                drawn = {run.name: self._pictures_of(run) for run in runs} if self._pictures else {}
                groups = group_runs(runs)
                self._payload = build_payload(groups, all_tables(groups), drawn)
            self._title = page_title(runs)
            self._stamp = stamp

    def page(self) -> bytes:
        """The page with the current data."""
        self.refresh()
        return render_page(self._payload, self._title, follow=True).encode("utf-8")

    def data(self) -> tuple[bytes, str]:
        """The current data and its version."""
        self.refresh()
        body = json.dumps(self._payload, allow_nan=False).encode("utf-8")
        return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    def _pictures_of(self, run: RunData) -> list[Picture]:
        key = (run.name, run.best.program_key if run.best else None)
        if key not in self._drawn:
            self._drawn[key] = draw_pictures(run)
        return self._drawn[key]


def serve(folders: Sequence[Path], port: int, pictures: bool = True) -> None:
    """Serve until interrupted.

    Raises:
        StoreError: a folder holds no run.
    """
    with LiveServer(LiveReport(folders, pictures), port) as server:
        print(
            f"http://{LOOPBACK}:{server.server_port}/ follows {len(folders)} run(s); Ctrl-C stops it.",
            flush=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


class LiveServer(ThreadingHTTPServer):
    """A server bound to the loopback address; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, report: LiveReport, port: int):
        super().__init__((LOOPBACK, port), _Handler)
        self.report = report


class _Handler(BaseHTTPRequestHandler):
    """Two addresses: the page and its data."""

    protocol_version = "HTTP/1.1"
    server: LiveServer

    def do_GET(self) -> None:
        report = self.server.report
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
            self._answer(403, b"", "text/plain")
        elif self.path == "/":
            self._answer(200, report.page(), "text/html; charset=utf-8")
        elif self.path == "/data.json":
            body, version = report.data()
            if self.headers.get("If-None-Match") == version:
                self._answer(304, b"", "application/json", version)
            else:
                self._answer(200, body, "application/json", version)
        else:
            self._answer(404, b"", "text/plain")

    def _answer(self, status: int, body: bytes, kind: str, version: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cache-Control", "no-store")
        if version is not None:
            self.send_header("ETag", version)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests every few seconds are not worth a line."""


def _stamp(folder: Path) -> tuple:
    found = []
    for name in ("run.sqlite", "run.sqlite-wal", "config.yaml"):
        with contextlib.suppress(FileNotFoundError):
            stat = (folder / name).stat()
            found.append((name, stat.st_mtime_ns, stat.st_size))
    return tuple(found)
