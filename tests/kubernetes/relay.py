"""In front of the server: what happens between a look and a request, and answers that are lost. All else passes.

For a server older than 1.22 it takes an eviction of policy/v1 for one of policy/v1beta1, as newer ones do.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.kubernetes.cluster import Cluster

PASSED = ("Authorization", "Content-Type", "Accept", "User-Agent")


class Relay:
    """``before``: what happens right before the next request with an effect is passed on. ``loses``: whether its answer is lost."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.port = cluster, 0
        self.before: Callable[[], object] | None = None
        self.loses = False

    def passed(self, path: str, body: bytes) -> bytes:
        """What the server gets."""
        if self.before is not None and effective(path):
            happens, self.before = self.before, None
            happens()
        if self.cluster.version < (1, 22) and path.partition("?")[0].endswith("/eviction"):
            return json.dumps(json.loads(body) | {"apiVersion": "policy/v1beta1"}).encode()
        return body

    def lost(self, path: str) -> bool:
        """Whether nobody gets this answer."""
        lost = self.loses and effective(path)
        self.loses = self.loses and not lost
        return lost


def effective(path: str) -> bool:
    """Whether this is the request that ends something, by what stands in it alone."""
    return "fieldManager=costguard" in path and "dryRun" not in path


@contextmanager
def relayed(cluster: Cluster) -> Iterator[Relay]:
    """One that answers."""
    relay = Relay(cluster)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = relay.passed(self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, timeout=10, context=cluster.context)
            try:
                given = {name: self.headers[name] for name in PASSED if self.headers[name]}
                connection.request(self.command, self.path, body or None, given)
                answer = connection.getresponse()
                text = answer.read()
                if relay.lost(self.path):
                    raise ConnectionResetError
            except OSError:
                self.close_connection = True
                return
            finally:
                connection.close()
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if said := answer.getheader(name):
                    self.send_header(name, said)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = answer

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cluster.folder / "server.crt", cluster.folder / "server.key")

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            try:
                with context.wrap_socket(request, server_side=True) as secured:
                    super().finish_request(secured, client_address)
            except OSError:
                return

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    relay.port = server.server_port
    try:
        yield relay
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
