"""An HTTP proxy in front of a real S3 server that fails in named ways: as planned, at random, or not at all."""

from __future__ import annotations

import http.client
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

BUSY = "answers 503 and does nothing"
BROKEN = "answers 500 and does nothing"
LATE = "waits a moment first"
GONE = "hangs up, and does nothing"
RESET = "resets the connection in the middle of the request's body, and does nothing"
LOST = "does it, and hangs up without an answer"
LIED = "does it, and answers 500"
CUT = "hangs up in the middle of the body"
SHORT = "answers with half of the body, and says that this is all of it"
TWICE = "does it twice, and gives the second answer"
ECHO = "does it, and does it once more when it is long over"
SILENT = "says nothing for some seconds, hangs up, and does nothing"

WEATHER = (BUSY, BROKEN, LATE, GONE, RESET, LOST, LIED, CUT, SHORT, TWICE, ECHO, SILENT)
LOST_ANSWERS = (LOST, LIED, TWICE, ECHO)
SILENT_SECONDS = 4
_RANDOM = re.compile(r"^/[^/?]+/[0-9a-f]{12}|[0-9A-Za-z]{27}")  # the place of a farm, and ids


class Hold:
    """Requests that get no further than here: their sender hangs, until the hold ends or somebody kills it.

    A request is one of a method for a key that the pattern is found in, with these words in its body. With `done` it
    is carried out first, and only its answer is held. `skip` lets the first of them pass.
    """

    def __init__(self, method, pattern, words=b"", *, done=False, skip=0):
        self.method, self.pattern, self.words, self.done = method, re.compile(pattern), words, done
        self._skip = skip
        self._lock = threading.Lock()
        self.reached, self.ended = threading.Event(), threading.Event()
        self.path = ""  # of the first request that is held
        self.carry_on = False  # what is held when the hold ends: carried out, or dropped
        self.late = 0  # how many were carried out when it had ended

    def holds(self, method, path, body):
        if self.ended.is_set() or method != self.method or self.words not in body:
            return False
        if not self.pattern.search(path):
            return False
        with self._lock:
            self._skip -= 1
            return self._skip < 0

    def wait(self, path):
        self.path = self.path or path
        self.reached.set()
        self.ended.wait()

    def end(self, *, carry_on=False):
        self.carry_on = carry_on
        self.ended.set()


class FaultyS3:
    """Where the proxy listens, and what it is to do wrong.

    `plan` gives faults by method, used up in order. `storm` lets a share of all requests fail; which ones, and how, is
    a function of the seed, the request, and how often it has come: not of the order that threads run in.
    """

    def __init__(self, endpoint):
        self.upstream = urlsplit(endpoint).netloc
        self.endpoint = ""
        self.plan: dict[str, list[str]] = {}
        self.seen: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.holds: list[Hold] = []
        self.down = threading.Event()
        self.last = time.monotonic()  # when something was asked or answered
        self._flying = 0
        self._storm = None
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, method, pattern, words=b"", **options):
        """While the block runs, hold such requests. In the end they are dropped."""
        hold = self.start_hold(Hold(method, pattern, words, **options))
        try:
            yield hold
        finally:
            self.end_hold(hold)

    def start_hold(self, hold):
        self.holds.append(hold)
        return hold

    def end_hold(self, hold, *, carry_on=False):
        hold.end(carry_on=carry_on)
        self.holds.remove(hold)

    @contextmanager
    def flying(self):
        """Count a request as under way."""
        with self._lock:
            self._flying += 1
        try:
            yield
        finally:
            with self._lock:
                self._flying -= 1
                self.last = time.monotonic()

    def is_quiet(self, seconds):
        """Whether nothing is under way, and nothing was for so long."""
        with self._lock:
            return not self._flying and time.monotonic() - self.last > seconds

    @contextmanager
    def storm(self, seed, share, kinds=WEATHER):
        """While the block runs, let this share of all requests fail in these ways."""
        self._storm = (seed, share, kinds)
        try:
            yield
        finally:
            self._storm = None

    def next_fault(self, method, path):
        with self._lock:
            self.seen[method] += 1
            faults = self.plan.get(method)
            if self.down.is_set():
                fault = GONE
            else:
                fault = faults.pop(0) if faults else self._by_chance(f"{method} {_RANDOM.sub('', path)}")
            if fault is not None:
                self.faults[fault] += 1
            return fault

    def _by_chance(self, request):
        if self._storm is None:
            return None
        seed, share, kinds = self._storm
        self._asked[request] += 1
        chance = random.Random(f"{seed} {request} {self._asked[request]}")
        return chance.choice(kinds) if chance.random() < share else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        proxy = self.server.proxy
        with proxy.flying():
            self.pass_on(proxy)

    def pass_on(self, proxy):
        fault = proxy.next_fault(self.command, self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length // 2 if fault == RESET else length)
        hold = next((hold for hold in list(proxy.holds) if hold.holds(self.command, self.path, body)), None)
        if self.is_stack_alive(hold, done=False) or self.is_refused(fault):
            return
        for _ in range(2 if fault == TWICE else 1):
            status, headers, answer = self.forward(body)
        if fault == ECHO:
            threading.Timer(1.5, self.echo, (proxy, body)).start()
        if self.is_stack_alive(hold, done=True):
            return
        if proxy.down.is_set() or fault == LOST or (fault == CUT and len(answer) < 2):
            self.reset()
        elif fault == LIED:
            self.answer(500, {}, _told("InternalError", "We encountered an internal error."))
        elif fault == SHORT:
            self.answer(status, headers, answer[: len(answer) // 2])
        else:
            self.answer(status, headers, answer, send=len(answer) // 2 if fault == CUT else None)

    def is_stack_alive(self, hold, *, done):
        """Wait out a hold. Whether the request ends here."""
        if hold is None or hold.done is not done:
            return False
        hold.wait(self.path)
        if hold.carry_on:
            hold.late += 1
        else:
            self.reset()
        return not hold.carry_on

    def is_refused(self, fault):
        """Whether the request ends before it gets anywhere."""
        if fault == LATE:
            time.sleep(random.Random(self.path).uniform(0.1, 1.5))
        elif fault in (RESET, GONE, SILENT):
            time.sleep(SILENT_SECONDS if fault == SILENT else 0)
            self.reset()
        elif fault == BUSY:
            self.answer(503, {}, _told("SlowDown", "Please slow down."))
        elif fault == BROKEN:
            self.answer(500, {}, _told("InternalError", "We encountered an internal error."))
        return fault in (RESET, GONE, SILENT, BUSY, BROKEN)

    def echo(self, proxy, body):
        """The same request once more, when nobody waits for it any more."""
        with proxy.flying(), suppress(OSError, http.client.HTTPException):
            self.forward(body)

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
        if send is not None:
            self.reset()

    def reset(self):
        """Hang up without a word: with a TCP reset, not in order."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RD)

    def log_message(self, *_):
        pass


def _told(code, message):
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request, client_address):
        """A client that was killed is what this is for."""


@contextmanager
def faulty(server):
    """Run the proxy as long as the block does."""
    proxy = FaultyS3(server.endpoint)
    httpd = _Server(("127.0.0.1", 0), _Handler)
    httpd.proxy = proxy
    proxy.endpoint = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        for hold in list(proxy.holds):
            proxy.end_hold(hold)
        httpd.shutdown()
        httpd.server_close()
        thread.join()
