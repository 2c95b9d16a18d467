"""An HTTP proxy in front of a real S3 server that makes it one which ignores some conditions, or only counts writes.

Clients sign the headers of their requests, conditions and host included. So what is left of a request is signed anew.
"""

import http.client
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

REGION = "us-east-1"
SIGNED_ANEW = {"authorization", "host", "x-amz-date", "x-amz-content-sha256"}
OF_THE_CONNECTION = {"connection", "expect", "content-length", "transfer-encoding", "date", "server"}


class ForgetfulS3:
    """Where the proxy listens, the headers that it forgets, and how often each bucket was written to."""

    def __init__(self, server, forgotten):
        self.server = server
        self.forgotten = {name.lower() for name in forgotten}
        self.endpoint = ""
        self.writes = Counter()

    def forward(self, method, path, headers, body):
        """The answer of the real server to what is left of a request."""
        dropped = self.forgotten | SIGNED_ANEW | OF_THE_CONNECTION
        kept = {name: value for name, value in headers.items() if name.lower() not in dropped}
        request = AWSRequest(method, self.server.endpoint + path, kept, body)
        S3SigV4Auth(Credentials(self.server.access_key, self.server.secret_key), "s3", REGION).add_auth(request)
        connection = http.client.HTTPConnection(urlsplit(self.server.endpoint).netloc, timeout=30)
        try:
            connection.request(method, path, body, dict(request.headers.items()))
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        proxy = self.server.proxy
        if self.command == "PUT":
            proxy.writes[self.path.split("/")[1]] += 1
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, headers, answer = proxy.forward(self.command, self.path, self.headers, body)
        length = dict(headers).get("Content-Length", "0") if self.command == "HEAD" else str(len(answer))
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in OF_THE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815

    def log_message(self, *_):
        pass


@contextmanager
def forgetful(server, *forgotten):
    """Run the proxy as long as the block does."""
    proxy = ForgetfulS3(server, forgotten)
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
