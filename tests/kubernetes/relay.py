"""In front of a server older than 1.22: it takes an eviction of policy/v1 for one of policy/v1beta1, as newer ones do. All else passes."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.kubernetes.cluster import Cluster

PASSED = ("Authorization", "Content-Type", "Accept", "User-Agent")


@contextmanager
def relayed(cluster: Cluster) -> Iterator[int]:
    """The port where it answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.partition("?")[0].endswith("/eviction"):
                body = json.dumps(json.loads(body) | {"apiVersion": "policy/v1beta1"}).encode()
            connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, timeout=10, context=cluster.context)
            try:
                given = {name: self.headers[name] for name in PASSED if self.headers[name]}
                connection.request(self.command, self.path, body or None, given)
                answer = connection.getresponse()
                text = answer.read()
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
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
