"""An end to what an answer may hold: an SDK reads a body of any size whole, and this machine's memory belongs to its jobs."""

from collections.abc import Iterator
from typing import Any

LONGEST = 8 * 2**20
"""Bytes of a whole answer, unpacked; what a cloud says of one machine is a small part of it."""


class TooLongError(Exception):
    """An answer had more than `LONGEST` bytes: whoever sent it, it is nothing that was asked for."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {LONGEST // 2**20} MB")


class Limited:
    """The ``raw`` of a response of `requests` or of the like: what is read in pieces ends at `LONGEST`, all else is as before."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - a response of an HTTP library that the core does not load
        self._inner = inner

    def stream(self, amount: int = 65_536, decode_content: bool | None = None) -> Iterator[bytes]:
        """The unpacked body, piece by piece. Raises TooLongError."""
        left = LONGEST
        for piece in self._inner.stream(amount, decode_content=decode_content):
            left -= len(piece)
            if left < 0:
                self._inner.close()
                raise TooLongError
            yield piece

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return getattr(self._inner, name)


def limit(response: Any, **_options: object) -> None:  # noqa: ANN401 - as above
    """A hook of `requests` for each response, before anything is read of it."""
    response.raw = Limited(response.raw)
