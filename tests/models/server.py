"""A provider on the loopback, in a process of its own, that does what each test tells it to.

It is told by the requests themselves: the model's name is a script, whose steps are used up one by one
and whose last step stays.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MAX_WAIT = 20  # seconds: longer than any client here waits, and an end all the same


class Provider(BaseHTTPRequestHandler):
    """Answers chat completions by script; POST /script/NAME lays one down, GET /asked/NAME shows what came."""

    protocol_version = "HTTP/1.1"
    scripts: dict[str, list[dict[str, Any]]] = {}
    asked: dict[str, list[dict[str, Any]]] = {}
    lock = threading.Lock()
    over = threading.Event()  # never set: what hangs, hangs until its time is up
    seen = threading.Event()  # set by GET /seen: the client has shown the first text

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/seen":
            self.seen.set()
        with self.lock:
            self._send(200, json.dumps(self.asked.get(self.path.split("/")[-1], [])))

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        if self.path.startswith("/script/"):
            with self.lock:
                self.scripts[self.path.split("/")[-1]] = json.loads(data)
            self._send(200, "{}")
            return
        request, headers = json.loads(data), {name.lower(): value for name, value in self.headers.items()}
        with self.lock:
            came = self.asked.setdefault(request["model"], [])
            step = self.scripts[request["model"]]
            step = step[min(len(came), len(step) - 1)]
            came.append({"request": request, "headers": headers, "at": time.monotonic()})
        self._play(step)

    def _play(self, step: dict[str, Any]) -> None:
        if step.get("hang"):
            self.over.wait(MAX_WAIT)
            self.close_connection = True
        elif "stream" in step:
            self._stream(step)
        else:
            self._send(step.get("status", 200), step["body"], step.get("headers", {}), step.get("type"))

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None, kind: str | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind or "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, step: dict[str, Any]) -> None:
        """Write each piece as a chunk of its own. `end` may be "drop" (the line breaks) or "hang".

        `pause` is the number of the piece that waits until the client has shown what came before.
        """
        self.send_response(200)
        self.send_header("content-type", step.get("type", "text/event-stream"))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(step["stream"]):
            if step.get("pause") == number and not self.seen.wait(MAX_WAIT):
                break
            data = piece.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if step.get("end") == "hang":
            self.over.wait(MAX_WAIT)
        elif step.get("end") != "drop":
            self.wfile.write(b"0\r\n\r\n")
            return
        self.close_connection = True


def serve() -> None:
    """Listen on a free port of the loopback, print it, and end with standard input."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


PROGRAM = [sys.executable, str(Path(__file__))]

if __name__ == "__main__":
    serve()
