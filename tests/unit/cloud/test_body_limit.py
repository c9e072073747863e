"""A body of any size is read up to a limit, and all else of a response is as it was."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from costguard.cloud.http import LONGEST_BYTES, TooLongError, limit


class Raw:
    """The bytes of a response, as an HTTP library gives them."""

    status = 206

    def __init__(self, *pieces: int) -> None:
        self._pieces = pieces
        self.asked: tuple[int, bool | None] | None = None
        self.closed = False

    def stream(self, amount: int, decode_content: bool | None = None) -> Iterator[bytes]:
        self.asked = amount, decode_content
        for size in self._pieces:
            yield bytes(size)

    def close(self) -> None:
        self.closed = True


def limited(*pieces: int) -> tuple[Raw, SimpleNamespace]:
    raw = Raw(*pieces)
    response = SimpleNamespace(raw=raw)
    limit(response, timeout=5)
    return raw, response


@pytest.mark.parametrize("pieces", [(), (5, 7), (LONGEST_BYTES,), (LONGEST_BYTES - 1, 1), (LONGEST_BYTES, 0)])
def test_what_fits_is_read_whole(pieces: tuple[int, ...]) -> None:
    """Piece by piece as it comes, in pieces as large as they are wanted, unpacked or not; the rest of it is untouched."""
    raw, response = limited(*pieces)
    assert [len(piece) for piece in response.raw.stream(10, decode_content=True)] == list(pieces)
    assert (raw.asked, raw.closed, response.raw.status) == ((10, True), False, 206)
    assert sum(map(len, response.raw.stream())) == sum(pieces)
    assert raw.asked == (65_536, None)


@pytest.mark.parametrize(
    "pieces", [(LONGEST_BYTES + 1,), (LONGEST_BYTES, 1), (1, LONGEST_BYTES), (LONGEST_BYTES, 0, 5, 5)]
)
def test_what_does_not_fit_is_none(pieces: tuple[int, ...]) -> None:
    """It is hung up on at the first byte too many, and the words say how much is allowed."""
    raw, response = limited(*pieces)
    with pytest.raises(TooLongError, match="more than 8 MB"):
        list(response.raw.stream())
    assert raw.closed
