"""The ledger and the model behind HTTP on this machine, for learners in processes of their own.

    POST /evaluate             {"program": text} → {"score", "status", "detail"}
    POST /v1/...               the model's server, a candidate each, tokens counted; refused once the budget is spent
    GET /v1/...                the same, uncounted

So nothing of the count is left to the learner, and no hidden state is in a process of its.
"""

import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from atlas_gym.experiments.learners.ledger import Ledger

_ANSWER_S = 1200.0
"""A model that has not answered after this long has failed."""


@contextlib.contextmanager
def referee(ledger: Ledger, model_url: str) -> Iterator[str]:
    """A ledger behind HTTP on this machine while the block lasts, at this address.

    Args:
        ledger: what counts.
        model_url: address of the model's server up to and including the version, as `base_url`.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(ledger, model_url))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _handler(ledger: Ledger, model_url: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*_forward(model_url, self.path, None))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/evaluate":
                evaluation = ledger.score(json.loads(body)["program"])
                score = ledger.task.worst_score if evaluation.score is None else evaluation.score
                found = {"score": score, "status": str(evaluation.status), "detail": evaluation.detail}
                self._answer(200, json.dumps(found).encode())
            elif ledger.ask():
                with ledger.working():
                    status, reply = _forward(model_url, self.path, body)
                if status == 200:
                    usage = json.loads(reply).get("usage") or {}
                    ledger.written(usage.get("completion_tokens", 0), usage.get("prompt_tokens", 0))
                elif status >= 500:
                    ledger.take_back()
                self._answer(status, reply)
            else:
                self._answer(403, b'{"error": {"message": "the budget is spent"}}')

        def _answer(self, status: int, body: bytes) -> None:
            with contextlib.suppress(ConnectionError):  # a peer that was stopped no longer listens
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _forward(model_url: str, path: str, body: bytes | None) -> tuple[int, bytes]:
    """Status and body of the model server's answer."""
    if not path.startswith("/v1/"):
        return 404, b'{"error": {"message": "there is nothing here"}}'
    request = urllib.request.Request(
        model_url + path.removeprefix("/v1"), body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return 502, json.dumps({"error": {"message": str(error)}}).encode()
