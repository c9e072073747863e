"""Which GPU of the driver is which, and why one is not opened."""

from typing import Any, NamedTuple, cast

import pytest

from costguard.readers.nvml.codes import (
    ABSENT,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    UNKNOWN,
)
from costguard.readers.nvml.library import Nvml
from costguard.readers.nvml.lookup import find, listed, place

A, B, C = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"


class Board(NamedTuple):
    """One GPU of the driver's list. A number in place of a text is the code of the failure; None is text that is none."""

    address: str | int = NOT_SUPPORTED
    uuid: str | int | None = NOT_SUPPORTED
    opens: int = SUCCESS
    found_as: str = ""  # the address by which the driver finds it


class Driver:
    """What the look-up needs of the library: each question about one of some boards. A handle is the board's number plus 1."""

    def __init__(self, *boards: Board, by_address: int = SUCCESS, by_uuid: int = SUCCESS) -> None:
        self.boards, self.by_address, self.by_uuid = boards, by_address, by_uuid

    @property
    def nvml(self) -> Nvml:
        return cast("Nvml", self)

    def open_index(self, index: int) -> tuple[int, Any]:
        board = self.boards[index]
        return (board.opens, None) if board.opens else (SUCCESS, index + 1)

    def open_address(self, address: str) -> tuple[int, Any]:
        return self._named(self.by_address, [board.found_as or board.address for board in self.boards], address)

    def open_uuid(self, uuid: str) -> tuple[int, Any]:
        return self._named(self.by_uuid, [board.uuid for board in self.boards], uuid)

    def _named(self, code: int, names: list[Any], name: str) -> tuple[int, Any]:
        if code or name not in names:
            return code or NOT_FOUND, None
        opens = self.boards[names.index(name)].opens
        return opens, None if opens else names.index(name) + 1

    def address(self, handle: Any) -> tuple[int, str]:
        found = self.boards[handle - 1].address
        return (found, "") if isinstance(found, int) else (SUCCESS, found)

    def uuid(self, handle: Any) -> tuple[int, str]:
        found = self.boards[handle - 1].uuid
        if found is None:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text")
        return (found, "") if isinstance(found, int) else (SUCCESS, found)

    def same(self, one: Any, other: Any) -> bool:
        return bool(one == other)


def keys(driver: Driver, expected: tuple[str, ...] = (), known: tuple[str, ...] = ()) -> list[tuple[int, str]]:
    found = list(listed(driver.nvml, len(driver.boards), expected, known))
    assert [index for index, *_ in found] == list(range(len(driver.boards)))
    return [(code, key) for _, code, key, _ in found]


@pytest.mark.parametrize(
    ("board", "expected", "key"),
    [
        (Board(A, "GPU-1"), (), A),
        (Board(NOT_SUPPORTED, "GPU-1", found_as=B), (A, B), B),
        (Board(NOT_SUPPORTED, "GPU-1", found_as=B), (A,), "GPU-1"),
        (Board(NOT_SUPPORTED, "GPU-1"), (), "GPU-1"),
        (Board(FUNCTION_NOT_FOUND, ""), (), place(0)),
        (Board(NOT_SUPPORTED, NOT_SUPPORTED), (), place(0)),
        (Board(NOT_SUPPORTED, None), (), place(0)),
    ],
)
def test_a_gpu_is_known_by_the_surest_that_it_tells(board: Board, expected: tuple[str, ...], key: str) -> None:
    """Its address, also where only the driver's look-up knows it; else its UUID; else its number."""
    assert keys(Driver(board), expected) == [(SUCCESS, key)]


@pytest.mark.parametrize(
    ("board", "code"),
    [
        (Board(opens=GPU_IS_LOST), GPU_IS_LOST),
        (Board(UNKNOWN, "GPU-1"), UNKNOWN),
        (Board(NO_PERMISSION, "GPU-1"), NO_PERMISSION),
        (Board(NOT_SUPPORTED, GPU_IS_LOST), GPU_IS_LOST),
    ],
)
def test_a_name_that_could_not_be_had_is_a_failure(board: Board, code: int) -> None:
    """Another name would be another GPU; the others have theirs all the same."""
    assert keys(Driver(board, Board(B))) == [(code, ""), (SUCCESS, B)]


def test_two_gpus_never_share_a_name() -> None:
    """The second one of an address has its number."""
    assert keys(Driver(Board(A), Board(A), Board(A))) == [(SUCCESS, A), (SUCCESS, place(1)), (SUCCESS, place(2))]


def test_another_gpu_of_the_bus_is_not_this_one() -> None:
    """Each of two that tell no address is found by its own."""
    two = Driver(Board(found_as=B), Board(found_as=A))
    assert keys(two, (A, B)) == [(SUCCESS, B), (SUCCESS, A)]


@pytest.mark.parametrize(
    ("known", "key"), [((place(0),), place(0)), ((place(0), A), A), ((place(1),), A), ((A,), A), ((), A)]
)
def test_a_gpu_keeps_the_name_that_it_had(known: tuple[str, ...], key: str) -> None:
    """Of one that tells its address only later nothing begins anew."""
    assert keys(Driver(Board(A)), known=known) == [(SUCCESS, key)]


THREE = (Board(A, "GPU-1"), Board(B, "GPU-2"), Board(C, "GPU-3"))


@pytest.mark.parametrize("trouble", [SUCCESS, NOT_FOUND, INVALID_ARGUMENT, *ABSENT])
@pytest.mark.parametrize(("key", "handle"), [(B, 2), ("GPU-3", 3), (place(0), 1), (place(2), 3)])
def test_the_handle_of_a_gpu(trouble: int, key: str, handle: int) -> None:
    """Also from a driver that does not find it by its name: then each of the list is asked for its own."""
    assert find(Driver(*THREE, by_address=trouble, by_uuid=trouble).nvml, key, 3) == (SUCCESS, handle)


@pytest.mark.parametrize("key", ["0000:0a:00.0", "GPU-9", place(3), place(7)])
def test_a_gpu_that_is_not_there(key: str) -> None:
    """The driver says nothing of it."""
    assert find(Driver(*THREE).nvml, key, 3) == (NOT_FOUND, None)
    assert find(Driver(Board(A, None)).nvml, key, 1) == (NOT_FOUND, None)


@pytest.mark.parametrize("lookup", [SUCCESS, NOT_FOUND, INVALID_ARGUMENT, FUNCTION_NOT_FOUND])
def test_a_gpu_that_the_driver_refuses_is_explained_by_that(lookup: int) -> None:
    """By the code of the first one that it does not open, where the look-up itself says nothing of a GPU."""
    boards = (Board(A), Board(B, opens=GPU_IS_LOST), Board(C, opens=NO_PERMISSION))
    assert find(Driver(*boards, by_address=lookup).nvml, B, 3) == (GPU_IS_LOST, None)
    assert find(Driver(*boards, by_address=lookup).nvml, A, 3) == (SUCCESS, 1)


def test_a_look_up_that_fails_says_what_failed() -> None:
    """It is an answer about this very GPU."""
    assert find(Driver(Board(A), by_address=GPU_IS_LOST).nvml, B, 1) == (GPU_IS_LOST, None)
    assert find(Driver(Board(A, opens=NO_PERMISSION), by_address=UNKNOWN).nvml, B, 1) == (UNKNOWN, None)
