"""One connection of the machine's own network, carried to a server of the test: ``relay.py CUT PORT [CERTIFICATE [tls]]``.

QEMU starts one for each connection. While there is a file CUT, nobody gets through. The certificate is of the name that
the machine believes to speak to; ``tls``: the server wants TLS too, with whatever certificate.
"""

import os
import select
import socket
import sys
from contextlib import suppress


def main() -> None:
    """Until one of both sides ends."""
    cut, port, *names = sys.argv[1:]
    if os.path.exists(cut):
        return
    guest = socket.socket(fileno=os.dup(0))
    server = socket.create_connection(("127.0.0.1", int(port)))
    if names:
        import ssl  # the metadata service is asked often, and has to answer within a second
    if names[1:]:
        blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        server = blind.wrap_socket(server)
    if names:
        shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(names[0])
        guest = shown.wrap_socket(guest, server_side=True)
    _carry(guest, server)


def _carry(guest: socket.socket, server: socket.socket) -> None:
    """In one thread: a TLS connection must not be read and written at the same time."""
    other = {guest: server, server: guest}
    while True:
        kept = [one for one in other if _pending(one)]
        for source in kept or select.select(list(other), [], [])[0]:
            source.settimeout(0.0)
            try:
                data = source.recv(65536)
            except BlockingIOError:
                continue
            except OSError as error:
                if type(error).__name__ == "SSLWantReadError":  # what came was TLS's own
                    continue
                raise
            if not data:
                return
            other[source].settimeout(None)
            other[source].sendall(data)


def _pending(one: socket.socket) -> int:
    """Bytes that TLS has decrypted already."""
    ask = getattr(one, "pending", None)
    return ask() if ask else 0


if __name__ == "__main__":
    with suppress(OSError):  # nobody listens there, or the machine hung up: the connection ends
        main()
