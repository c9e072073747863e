"""NVML without a binding: the few functions that the reader calls, each answering (code, value).

The published bindings import a third of the standard library; this process lives as long as the
machine. Numbers and layouts: NVIDIA's nvml.h. A function that the library lacks answers 13.
"""

import ctypes

TYPE_CHECKING = False  # importing typing would cost this process 0.6 MB for good
if TYPE_CHECKING:
    from collections.abc import Callable
    from ctypes import _SimpleCData
    from typing import Any

SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16

ENGINES = ("encoder", "decoder", "JPEG engine", "OFA")

_WORDS = {
    1: "the library was not initialised",
    2: "invalid argument",
    3: "not supported",
    4: "no permission; run the agent as root and outside a wrapper that drops rights",
    6: "not found",
    7: "the answer did not fit",
    9: "the driver is not loaded",
    10: "timeout",
    12: "the driver's library is missing",
    13: "the library is too old for this call",
    15: "the GPU is lost (fell off the bus, see Xid 79 in the kernel log); a reboot is needed",
    16: "the GPU must be reset",
    17: "the operating system blocks the device; check the unit's DeviceAllow and the container's devices",
    18: "driver and library have different versions (upgraded under a running system); reboot or reload the driver",
    27: "the GPU is not ready yet",
    999: "unknown driver error; in a container the devices may have been taken away",
}

_PLACES = (
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
)
_UTILISATION_SAMPLES = 1
_RING_ROOM = 256  # samples; rings of about 100 were seen
# NVML value type -> how memory holds it: format, first element, step (a sample is 16 bytes, its value the last 8).
_LAYOUTS = {
    0: ("d", 1, 2), 1: ("I", 2, 4), 2: ("Q", 1, 2), 3: ("Q", 1, 2), 4: ("q", 1, 2), 5: ("i", 2, 4), 6: ("H", 4, 8),
}  # fmt: skip

_P = ctypes.c_void_p
_U = ctypes.c_uint
_Q = ctypes.c_ulonglong
_SIGNATURES = {
    "nvmlInit_v2": (),
    "nvmlShutdown": (),
    "nvmlDeviceGetCount_v2": (_P,),
    "nvmlDeviceGetHandleByIndex_v2": (_U, _P),
    "nvmlDeviceGetHandleByPciBusId_v2": (ctypes.c_char_p, _P),
    "nvmlDeviceGetIndex": (_P, _P),
    "nvmlDeviceGetPciInfo_v3": (_P, _P),
    "nvmlDeviceGetName": (_P, _P, _U),
    "nvmlDeviceGetUUID": (_P, _P, _U),
    "nvmlDeviceGetUtilizationRates": (_P, _P),
    "nvmlDeviceGetSamples": (_P, _U, _Q, _P, _P, _P),
    "nvmlDeviceGetEncoderUtilization": (_P, _P, _P),
    "nvmlDeviceGetDecoderUtilization": (_P, _P, _P),
    "nvmlDeviceGetJpgUtilization": (_P, _P, _P),
    "nvmlDeviceGetOfaUtilization": (_P, _P, _P),
    "nvmlDeviceGetTotalEnergyConsumption": (_P, _P),
    "nvmlDeviceGetPowerUsage": (_P, _P),
    "nvmlDeviceGetEnforcedPowerLimit": (_P, _P),
    "nvmlDeviceGetMemoryInfo": (_P, _P),
    "nvmlDeviceGetMigMode": (_P, _P, _P),
    "nvmlDeviceGetComputeRunningProcesses_v3": (_P, _P, _P),
    "nvmlDeviceGetComputeRunningProcesses_v2": (_P, _P, _P),
}


class NvmlError(Exception):
    """A call failed; ``code`` is NVML's."""

    def __init__(self, code: int, function: str) -> None:
        super().__init__(f"{words(code)} (NVML {code}, {function})")
        self.code = code


class LibraryMissingError(Exception):
    """The library cannot be loaded; the words say why."""


def words(code: int) -> str:
    """What a code means, and what to do about it where that is known."""
    return _WORDS.get(code, "failed")


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16), ("domain", _U), ("bus", _U), ("device", _U), ("pci_device", _U),
        ("pci_subsystem", _U), ("bus_id", ctypes.c_char * 32),
    )  # fmt: skip


class Nvml:
    """The loaded library. Not thread-safe: answers pass through shared buffers.

    Raises LibraryMissingError.
    """

    def __init__(self) -> None:
        library = _load()
        self._call = {name: _function(library, name, types) for name, types in _SIGNATURES.items()}
        self._uints = (_U * 4)()
        self._long = (_Q * 3)()
        self._handle = _P()
        self._pci = _PciInfo()
        self._text = ctypes.create_string_buffer(96)
        self._at = ctypes.byref(self._uints)
        self._at_1 = ctypes.byref(self._uints, 4)
        self._at_long = ctypes.byref(self._long)
        self._at_handle = ctypes.byref(self._handle)
        self._engines = tuple(
            self._call[f"nvmlDeviceGet{name}Utilization"] for name in ("Encoder", "Decoder", "Jpg", "Ofa")
        )
        self._rates = self._call["nvmlDeviceGetUtilizationRates"]
        self._energy = self._call["nvmlDeviceGetTotalEnergyConsumption"]
        self._samples = self._call["nvmlDeviceGetSamples"]
        self._make_room(_RING_ROOM)

    def init(self) -> int:
        """Initialise; once in the life of a process. Touches no GPU."""
        return int(self._call["nvmlInit_v2"]())

    def shutdown(self) -> int:
        """Let go of every GPU, so that the driver can be unloaded."""
        return int(self._call["nvmlShutdown"]())

    def count(self) -> tuple[int, int]:
        """How many GPUs the driver knows, unreadable ones included."""
        return self._call["nvmlDeviceGetCount_v2"](self._at), self._uints[0]

    def open_index(self, index: int) -> tuple[int, int]:
        """The handle of a GPU; 0 when it cannot be opened."""
        self._handle.value = 0
        return self._call["nvmlDeviceGetHandleByIndex_v2"](index, self._at_handle), self._opened()

    def open_address(self, address: str) -> tuple[int, int]:
        """The same by PCI address."""
        self._handle.value = 0
        code = self._call["nvmlDeviceGetHandleByPciBusId_v2"](address.encode(), self._at_handle)
        return code, self._opened()

    def index(self, handle: int) -> tuple[int, int]:
        """The driver's number of a GPU; not stable across boots."""
        return self._call["nvmlDeviceGetIndex"](handle, self._at), self._uints[0]

    def address(self, handle: int) -> tuple[int, str]:
        """The PCI address as sysfs writes it."""
        code = self._call["nvmlDeviceGetPciInfo_v3"](handle, ctypes.byref(self._pci))
        pci = self._pci
        return code, f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"

    def name(self, handle: int) -> tuple[int, bytes]:
        """The product name, as it came."""
        return self._call["nvmlDeviceGetName"](handle, self._text, 96), self._text.value

    def uuid(self, handle: int) -> tuple[int, bytes]:
        """The UUID, as it came."""
        return self._call["nvmlDeviceGetUUID"](handle, self._text, 96), self._text.value

    def rates(self, handle: int) -> tuple[int, int]:
        """Percent of the driver's last sampling period (1/6 to 1 s) in which a kernel ran."""
        return self._rates(handle, self._at), self._uints[0]

    def engine(self, number: int, handle: int) -> tuple[int, int]:
        """Percent for one of ENGINES."""
        return self._engines[number](handle, self._at, self._at_1), self._uints[0]

    def energy(self, handle: int) -> tuple[int, int]:
        """Millijoules since the driver was loaded."""
        return self._energy(handle, self._at_long), self._long[0]

    def power(self, handle: int) -> tuple[int, int]:
        """Milliwatts now."""
        return self._call["nvmlDeviceGetPowerUsage"](handle, self._at), self._uints[0]

    def power_limit(self, handle: int) -> tuple[int, int]:
        """Milliwatts that the board may draw."""
        return self._call["nvmlDeviceGetEnforcedPowerLimit"](handle, self._at), self._uints[0]

    def memory_used(self, handle: int) -> tuple[int, int]:
        """Bytes of GPU memory in use."""
        return self._call["nvmlDeviceGetMemoryInfo"](handle, self._at_long), self._long[2]

    def mig(self, handle: int) -> tuple[int, int]:
        """1 when the GPU is divided into MIG instances."""
        return self._call["nvmlDeviceGetMigMode"](handle, self._at, self._at_1), self._uints[0]

    def processes(self, handle: int) -> tuple[int, int]:
        """How many compute contexts there are; asks for their number only, so nothing is copied."""
        for version in ("v3", "v2"):
            self._uints[0] = 0
            code = self._call[f"nvmlDeviceGetComputeRunningProcesses_{version}"](handle, self._at, None)
            if code != FUNCTION_NOT_FOUND:
                break
        return SUCCESS if code == INSUFFICIENT_SIZE else code, self._uints[0]

    def samples(self, handle: int, since: int) -> tuple[int, list[int], "list[int] | list[float]"]:
        """Utilisation samples newer than ``since``: their times in microseconds (of no known clock) and percents."""
        kind, count = self._at, self._at_1
        self._uints[1] = self._room
        code = self._samples(handle, _UTILISATION_SAMPLES, since, kind, count, self._ring)
        if code in (INSUFFICIENT_SIZE, INVALID_ARGUMENT):
            code = self._samples(handle, _UTILISATION_SAMPLES, since, kind, count, None)
            if code == SUCCESS:
                self._make_room(min(2 * self._uints[1], 65536))
                self._uints[1] = self._room
                code = self._samples(handle, _UTILISATION_SAMPLES, since, kind, count, self._ring)
        if code != SUCCESS:
            return code, [], []
        got = min(self._uints[1], self._room)
        form, first, step = _LAYOUTS.get(self._uints[0], _LAYOUTS[3])
        stamps = self._bytes.cast("Q")[: 2 * got : 2].tolist()
        values = self._bytes[: 16 * got].cast(form)  # type: ignore[call-overload] # one of _LAYOUTS, all valid
        return code, stamps, values[first::step].tolist()

    def _opened(self) -> int:
        value: int | None = self._handle.value  # ctypes reads a null pointer as None
        return value or 0

    def _make_room(self, samples: int) -> None:
        self._room = samples
        self._ring = (_Q * (2 * samples))()
        self._bytes = memoryview(self._ring).cast("B")


def _load() -> ctypes.CDLL:
    why = ""
    for place in _PLACES:
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            why = why or str(error)
    missing = "No such file" in why
    raise LibraryMissingError(f"{words(12)} (NVML 12)" if missing else f"the driver's library cannot be loaded: {why}")


def _missing(*_arguments: object) -> int:
    return FUNCTION_NOT_FOUND


def _function(library: ctypes.CDLL, name: str, types: "tuple[type[_SimpleCData[Any]], ...]") -> "Callable[..., int]":
    try:
        function = library[name]
    except AttributeError:
        return _missing
    function.argtypes = types
    function.restype = ctypes.c_int
    return function
