"""What NVML answers when it does not answer: its codes, in words that say what to do. Numbers: NVIDIA's nvml.h."""

SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 25
DEPRECATED = 26
UNKNOWN = 999

ABSENT = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH, DEPRECATED)
"""Codes of what this GPU, or this version of the library, does not have."""

DROPPED = (*ABSENT, NO_PERMISSION)
"""Codes after which an optional signal is left out: it is not there, or not for us."""

_WORDS = {
    1: "the library was not initialised",
    2: "invalid argument",
    3: "not supported",
    4: "no permission; run the agent as root, outside any wrapper that drops privileges",
    6: "not found",
    7: "the buffer was too small for the answer",
    8: "a GPU's power cable is not connected",
    9: "the driver is not loaded",
    10: "timeout",
    11: "the kernel reports an interrupt problem with a GPU",
    12: "the driver's library is missing",
    13: "the library is too old for this call",
    14: "the GPU's infoROM is corrupt",
    15: "the GPU is lost (fell off the bus, see Xid 79 in the kernel log); a reboot is needed",
    16: "the GPU must be reset",
    17: "the operating system blocks the device; check the unit's DeviceAllow and the container's devices",
    18: "driver and library have different versions (upgraded under a running system); reboot or reload the driver",
    19: "another process has exclusive use of the driver",
    20: "the driver is out of memory",
    23: "the driver accepts no more clients",
    25: "the library expects another version of this call",
    26: "this call is deprecated in the library",
    27: "the GPU is not ready yet",
    28: "the driver finds no such GPU",
    29: "not possible in the GPU's current state",
    999: "unknown driver error; in a container the devices may have been taken away",
}


class NvmlError(Exception):
    """A call failed; ``code`` is NVML's."""

    def __init__(self, code: int, function: str, says: str = "") -> None:
        super().__init__(f"{says or words(code)} (NVML {code}, {function})")
        self.code = code


class LibraryMissingError(Exception):
    """The library cannot be loaded; the words say why. ``broken``: there is one all the same."""

    def __init__(self, words: str, *, broken: bool = False) -> None:
        super().__init__(words)
        self.broken = broken


def words(code: int) -> str:
    """What a code means, and what to do about it where that is known."""
    return _WORDS.get(code, "the driver fails")
