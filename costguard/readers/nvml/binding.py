"""The driver's library of NVML, and those of its functions that are called now and then, each answering (code, value).

NVIDIA's own binding for Python defines some two thousand names more, 3.4 MB in a process that stays. Names, versions and
layouts: NVIDIA's nvml.h.
"""

import ctypes

from costguard.readers.nvml.codes import FUNCTION_NOT_FOUND, LIBRARY_NOT_FOUND, SUCCESS, LibraryMissingError

TYPE_CHECKING = False  # importing typing would cost this process memory for good
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Handle = Any
    """A GPU, a MIG instance of one, or a GPM sample: a pointer of the library's own."""

_PLACES = (
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
)
_TEXT_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE, and that of a UUID

loaded: "Any" = None
"""The library, once for a process; the driver may replace its file, and a new process takes the new one."""


class Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("old_address", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("kind", ctypes.c_uint),
        ("board", ctypes.c_uint),
        ("address", ctypes.c_char * 32),
    )


def load() -> None:
    """Raises LibraryMissingError for a library that is broken; that there is none is told by `initialise`."""
    global loaded  # noqa: PLW0603 - as any library it belongs to the process
    if loaded is not None:
        return
    for place in _PLACES:
        try:
            loaded = ctypes.CDLL(place)
        except OSError as error:
            if "No such file" not in str(error):
                raise LibraryMissingError(f"the driver's library cannot be loaded: {error}", broken=True) from error
        else:
            return


def function(name: str) -> "Callable[..., int]":
    """A function of the library; one that it lacks answers that it is not there."""
    try:
        return loaded[name]  # type: ignore[no-any-return]  # a function of ctypes
    except AttributeError:
        return _missing


def _missing(*_arguments: object) -> int:
    return FUNCTION_NOT_FOUND


def initialise() -> int:
    """Once in the life of a process; touches no GPU."""
    if loaded is None:
        return LIBRARY_NOT_FOUND
    code = function("nvmlInitWithFlags")(0)
    return function("nvmlInit_v2")() if code == FUNCTION_NOT_FOUND else code  # of an older library, without flags


def handle(name: str, *arguments: object) -> "tuple[int, Handle]":
    """Of a function that gives one; None when it gives none."""
    found = ctypes.c_void_p()
    code = function(name)(*arguments, ctypes.byref(found))
    return code, found if code == SUCCESS else None


def number(name: str, of: "Handle") -> tuple[int, int | None]:
    """Of a function that gives one of 32 bits."""
    found = ctypes.c_uint()
    code = function(name)(of, ctypes.byref(found))
    return code, found.value if code == SUCCESS else None


def text(name: str, of: "Handle") -> tuple[int, str]:
    """Of a function that writes one. Raises UnicodeDecodeError when it is no text."""
    found = ctypes.create_string_buffer(_TEXT_BYTES)
    code = function(name)(of, found, ctypes.c_uint(_TEXT_BYTES))
    return code, found.value.decode() if code == SUCCESS else ""


def pci(of: "Handle") -> tuple[int, Pci | None]:
    """Where a GPU is on the bus."""
    found = Pci()
    code = function("nvmlDeviceGetPciInfo_v3")(of, ctypes.byref(found))
    return code, found if code == SUCCESS else None


def mig_mode(of: "Handle") -> tuple[int, int]:
    """Whether a GPU is divided now."""
    now, later = ctypes.c_uint(), ctypes.c_uint()
    code = function("nvmlDeviceGetMigMode")(of, ctypes.byref(now), ctypes.byref(later))
    return code, now.value if code == SUCCESS else 0
