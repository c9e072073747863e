"""Which GPU of the driver is which: by PCI address, else by UUID, else by its number in the driver's list."""

from collections.abc import Iterable, Iterator

from costguard.readers.nvml.codes import ABSENT, INVALID_ARGUMENT, NOT_FOUND, SUCCESS
from costguard.readers.nvml.library import Handle, Nvml

_PLACE = "index:"


def place(index: int) -> str:
    """The key of a GPU of which nothing but its number is known."""
    return f"{_PLACE}{index}"


def listed(
    nvml: Nvml, count: int, expected: Iterable[str], known: Iterable[str]
) -> Iterator[tuple[int, int, str, Handle]]:
    """Every GPU of the driver's list: number, code, key and handle; without a key where the code is a failure.

    ``expected``: PCI addresses; ``known``: keys that were given before, which a GPU keeps while nobody else has its own.
    """
    known = set(known)
    given: set[str] = set()
    for index in range(count):
        code, handle = nvml.open_index(index)
        key = ""
        if code == SUCCESS:
            code, key = _key(nvml, index, handle, expected)
        if code == SUCCESS and (key in given or (key not in known and place(index) in known)):
            key = place(index)  # also of a GPU with the address of another one: never may one stand for both
        given.add(key)
        yield index, code, key, handle


def find(nvml: Nvml, key: str, count: int) -> tuple[int, Handle]:
    """The handle of the GPU with this key, looked for one by one where the driver does not find it by itself.

    Without one: why the driver does not open it, or NOT_FOUND where it says nothing of this GPU.
    """
    if key.startswith(_PLACE):
        index = int(key.removeprefix(_PLACE))
        return nvml.open_index(index) if index < count else (NOT_FOUND, None)
    by_address = ":" in key
    code, handle = nvml.open_address(key) if by_address else nvml.open_uuid(key)
    if code == SUCCESS:
        return code, handle
    refused = 0
    for index in range(count):
        own, handle = nvml.open_index(index)
        if own != SUCCESS:
            refused = refused or own
        elif (nvml.address(handle) if by_address else _uuid(nvml, handle)) == (SUCCESS, key):
            return own, handle
    unsaid = code in (*ABSENT, NOT_FOUND, INVALID_ARGUMENT)  # a look-up that is missing says nothing of the GPU
    return (refused or NOT_FOUND) if unsaid else code, None


def _key(nvml: Nvml, index: int, handle: Handle, expected: Iterable[str]) -> tuple[int, str]:
    """The key of a GPU; the code of the failure when it has one that could not be had."""
    code, address = nvml.address(handle)
    if code == SUCCESS:
        return code, address
    if code not in ABSENT:
        return code, ""
    for one in expected:  # the driver does not tell the address, and may know the GPU by it all the same
        own, same = nvml.open_address(one)
        if own == SUCCESS and nvml.same(handle, same):
            return SUCCESS, one
    code, uuid = _uuid(nvml, handle)
    if code == SUCCESS and uuid:
        return code, uuid
    return (SUCCESS, place(index)) if code in (SUCCESS, *ABSENT) else (code, "")


def _uuid(nvml: Nvml, handle: Handle) -> tuple[int, str]:
    try:
        return nvml.uuid(handle)
    except UnicodeDecodeError:  # told by the reading: a driver that writes such text is corrupt
        return SUCCESS, ""
