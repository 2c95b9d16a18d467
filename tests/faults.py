"""An HTTP proxy in front of a real S3 server that fails in named ways, when it is told to."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

BUSY = "answers 503 and does nothing"
LOST = "does it, and hangs up without an answer"
CUT = "hangs up in the middle of the body"


class Hold:
    """Requests that get no further than here: their sender hangs, until somebody kills it."""

    def __init__(self, method, ending):
        self.method, self.ending = method, ending
        self.reached, self.given_up = threading.Event(), threading.Event()

    def holds(self, method, path):
        return method == self.method and urlsplit(path).path.endswith(self.ending) and not self.given_up.is_set()


class FaultyS3:
    """Where the proxy listens, and what it is to do wrong: `plan` gives faults by method, used up in order."""

    def __init__(self, endpoint):
        self.upstream = urlsplit(endpoint).netloc
        self.endpoint = ""
        self.plan: dict[str, list[str]] = {}
        self.seen: Counter[str] = Counter()
        self.holding: Hold | None = None

    @contextmanager
    def hold(self, method, ending):
        """While the block runs, hold requests for objects whose keys end so. They are never carried out."""
        self.holding = Hold(method, ending)
        try:
            yield self.holding
        finally:
            self.holding.given_up.set()

    def next_fault(self, method):
        self.seen[method] += 1
        faults = self.plan.get(method)
        return faults.pop(0) if faults else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hold = self.server.proxy.holding
        if hold is not None and hold.holds(self.command, self.path):
            hold.reached.set()
            hold.given_up.wait()
            self.close_connection = True
            return
        fault = self.server.proxy.next_fault(self.command)
        if fault == BUSY:
            self.answer(503, {}, b"<Error><Code>SlowDown</Code><Message>Please slow down.</Message></Error>")
            return
        status, headers, answer = self.forward(body)
        if fault == LOST:
            self.close_connection = True
        elif fault == CUT:
            self.answer(status, headers, answer, send=len(answer) // 2)
            self.close_connection = True
        else:
            self.answer(status, headers, answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815

    def forward(self, body):
        upstream = http.client.HTTPConnection(self.server.proxy.upstream, timeout=30)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            upstream.close()

    def answer(self, status, headers, body, send=None):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        length = headers.get("Content-Length") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:send])

    def log_message(self, *_):
        pass


@contextmanager
def faulty(server):
    """Run the proxy as long as the block does."""
    proxy = FaultyS3(server.endpoint)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    httpd.proxy, httpd.daemon_threads = proxy, True
    proxy.endpoint = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
