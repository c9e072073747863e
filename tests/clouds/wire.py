"""A server on loopback that writes what it is told, byte by byte if need be."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def speaking(*answers: Sequence[bytes], gap: float = 0.0) -> Iterator[str]:
    """Answer each connection in turn with these pieces, ``gap`` seconds apart, and close it; the last one for all further."""
    listener = socket.create_server(("127.0.0.1", 0))
    left = list(answers)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            pieces = left.pop(0) if len(left) > 1 else left[0]
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(gap)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def answer(body: bytes, *headers: str, missing: int = 0) -> bytes:
    """A whole answer 200; ``missing`` bytes of its length never come."""
    lines = ["HTTP/1.1 200 OK", "Connection: close", f"Content-Length: {len(body) + missing}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def bytewise(data: bytes) -> list[bytes]:
    """One piece for each byte."""
    return [data[index : index + 1] for index in range(len(data))]


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is inside may take so long."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
