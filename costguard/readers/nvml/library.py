"""NVML through nvidia-ml-py: the few functions that the reader calls, each answering (code, value).

The rare calls are the binding's own. The hot ones (sample ring, engines, energy, rates, counters, use by
process, GPM: once per GPU and tick) use the functions of the library that the binding loaded, with buffers
made once: measured on 8 GPUs that takes a fifth of the CPU time. Numbers and layouts: NVIDIA's nvml.h.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from costguard.readers.nvml.codes import (
    DEPRECATED,
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    LIBRARY_NOT_FOUND,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    UNKNOWN,
    VERSION_MISMATCH,
    LibraryMissingError,
    NvmlError,
    words,
)

Handle = Any
"""What the binding gives for a GPU: a pointer."""
Engines = tuple[Callable[..., int], ...]


def _binding() -> Any:  # noqa: ANN401 # the binding has no types
    """NVIDIA's binding, without `ctypes.util` and `string`: it takes one name from each, and one of these it uses nowhere.

    Those modules would bring `subprocess`, `tempfile`, `shutil` and `re` into a process that stays, 2 MB.
    """
    found, words = ModuleType("ctypes.util"), ModuleType("string")
    found.find_library = lambda _: None  # type: ignore[attr-defined]  # a module made here
    words.capwords = lambda text, sep: sep.join(map(str.capitalize, text.split(sep)))  # type: ignore[attr-defined]  # likewise
    own = {module.__name__: sys.modules.get(module.__name__) for module in (found, words)}
    sys.modules |= {"ctypes.util": found, "string": words}
    try:
        import pynvml
    finally:
        for name, module in own.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
    return pynvml


pynvml = _binding()

ENGINES = ("encoder", "decoder", "JPEG engine", "OFA")

_PLACES = ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1")
_UTILISATION_SAMPLES = 1
_MOST_GPUS = 256  # more is garbage
_RING_ROOM = 256  # samples; rings of about 100 were seen
_MOST_SAMPLES = 65536
_IDLE = (SUCCESS, 0)
_PROCESS_ROOM = 32  # entries in the list of use by process
_CONTEXT_ROOM = 64  # entries in the list of contexts; with more there is only their number
_CONTEXT_WORDS = 3  # of 8 bytes in an entry, at most
_ENTRIES = (3, 3, 2)  # the same of each version of the list, the newest first
_PIDS_ROOM = 1024  # entries where every one is wanted
_MOST_CONTEXTS = 100_000  # more is garbage
_GPM_VERSION = 1  # of the structures that ask for it
_MEMORY_VERSION = 0x02000028  # of a structure of 40 bytes
_ALL_LINKS = 0xFFFFFFFF  # the scope of an NVLink counter that is the sum of all links
_COUNTER_BITS = {1: 32, 2: 64, 3: 64}  # NVML value types that a counter may have
_MOST_INSTANCES = 64  # places of MIG instances that are looked at
# NVML value type -> how memory holds it: format, first element, step (a sample is 16 bytes, its value the last 8).
_LAYOUTS = {
    0: ("d", 1, 2), 1: ("I", 2, 4), 2: ("Q", 1, 2), 3: ("Q", 1, 2), 4: ("q", 1, 2), 5: ("i", 2, 4), 6: ("H", 4, 8),
}  # fmt: skip
_WIDEST = 3

_Q = ctypes.c_ulonglong
_PAIR = ctypes.c_uint * 2
_MEMORY = _Q * 5  # version, total, reserved, free, used; in the first version: total, free, used
_SAMPLE = _Q * 2
_USE = _Q * 4  # by one process
_CONTEXTS = _Q * (_CONTEXT_WORDS * _CONTEXT_ROOM)
_COUNTER = _Q * 5
_METRICS = _Q * (3 + 5 * 512)  # more than NVML_GPM_METRIC_MAX, should the library clear its whole list


class Nvml:
    """The loaded and initialised library. Not thread-safe: answers pass through shared buffers.

    Raises LibraryMissingError, and NvmlError when it cannot be initialised.
    """

    def __init__(self) -> None:
        _load()
        try:
            pynvml.nvmlInit()  # once in the life of a process; touches no GPU
        except Exception as error:
            code = _code(error)
            if code == LIBRARY_NOT_FOUND:
                raise LibraryMissingError(f"{words(12)} (NVML 12)") from error
            if code == FUNCTION_NOT_FOUND:  # a library older than the one that takes flags
                code = _function("nvmlInit_v2")()
            if code != SUCCESS:
                raise NvmlError(code, "Init") from error
        self._uints = _PAIR()
        self._long = _Q()
        self._at = ctypes.byref(self._uints)
        self._at_1 = ctypes.byref(self._uints, 4)
        self._at_long = ctypes.byref(self._long)
        self._engines = tuple(
            _function(f"nvmlDeviceGet{name}Utilization") for name in ("Encoder", "Decoder", "Jpg", "Ofa")
        )
        self._rates = _function("nvmlDeviceGetUtilizationRates")
        self._energy = _function("nvmlDeviceGetTotalEnergyConsumption")
        self._samples = _function("nvmlDeviceGetSamples")
        self._temperature = _function("nvmlDeviceGetTemperature")
        self._newer = _Q()
        self._make_room(_RING_ROOM)
        self._process_use = _function("nvmlDeviceGetProcessUtilization")
        self._make_process_room(_PROCESS_ROOM)
        self._contexts = {kind: _lists(kind) for kind in ("Compute", "Graphics", "MPSCompute")}
        self._context_list = _CONTEXTS()
        self._memory = _MEMORY()
        self._memory_info = _function("nvmlDeviceGetMemoryInfo_v2")
        self._old_memory_info = _function("nvmlDeviceGetMemoryInfo")
        self._fields = _function("nvmlDeviceGetFieldValues")
        self._count = _function("nvmlDeviceGetCount_v2")
        self._gpm_support = _function("nvmlGpmQueryDeviceSupport")
        self._gpm_sample = _function("nvmlGpmSampleGet")
        self._gpm_mig_sample = _function("nvmlGpmMigSampleGet")
        self._gpm_metrics = _function("nvmlGpmMetricsGet")
        self._gpm = _METRICS()
        self._gpm_words = memoryview(self._gpm).cast("B").cast("Q")
        self._gpm_values = memoryview(self._gpm).cast("B").cast("d")

    def shutdown(self) -> None:
        """Let go of every GPU, so that the driver can be unloaded."""
        _ask(pynvml.nvmlShutdown)

    def count(self) -> tuple[int, int]:
        """How many GPUs the driver knows, unreadable ones included."""
        code = self._count(self._at)
        count = self._uints[0] if code == SUCCESS else 0
        return (UNKNOWN, 0) if count > _MOST_GPUS else (code, count)

    def open_index(self, index: int) -> tuple[int, Handle]:
        """The handle of a GPU; None when it cannot be opened."""
        return _ask(pynvml.nvmlDeviceGetHandleByIndex, index)

    def open_address(self, address: str) -> tuple[int, Handle]:
        """The same by PCI address, in the driver's own spelling (00000000:0A:00.0) or that of sysfs."""
        domain, _, rest = address.partition(":")
        code, handle = _ask(pynvml.nvmlDeviceGetHandleByPciBusId, f"{domain:0>8}:{rest}".upper().encode())
        if code in (NOT_FOUND, INVALID_ARGUMENT):
            return _ask(pynvml.nvmlDeviceGetHandleByPciBusId, address.encode())
        return code, handle

    def open_uuid(self, uuid: str) -> tuple[int, Handle]:
        """The same by UUID."""
        return _ask(pynvml.nvmlDeviceGetHandleByUUID, uuid.encode())

    def same(self, one: Handle, other: Handle) -> bool:
        """Whether two handles are of one GPU."""
        return ctypes.cast(one, ctypes.c_void_p).value == ctypes.cast(other, ctypes.c_void_p).value

    def index(self, handle: Handle) -> tuple[int, int | None]:
        """The driver's number of a GPU; not stable across boots."""
        return _ask(pynvml.nvmlDeviceGetIndex, handle)

    def address(self, handle: Handle) -> tuple[int, str]:
        """The PCI address as sysfs writes it."""
        code, pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
        return code, f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0" if pci is not None else ""

    def name(self, handle: Handle) -> tuple[int, str]:
        """The product name. Raises UnicodeDecodeError when it is no text."""
        code, name = _ask(pynvml.nvmlDeviceGetName, handle)
        return code, name or ""

    def uuid(self, handle: Handle) -> tuple[int, str]:
        """The UUID. Raises UnicodeDecodeError when it is no text."""
        code, uuid = _ask(pynvml.nvmlDeviceGetUUID, handle)
        return code, uuid or ""

    def rates(self, handle: Handle) -> tuple[int, int]:
        """Percent of the driver's last sampling period (1/6 to 1 s) in which a kernel ran."""
        return self._rates(handle, self._at), self._uints[0]

    def engines(self, handle: Handle, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Percent for some of ENGINES, each with its own code."""
        uints, at, period, functions = self._uints, self._at, self._at_1, self._engines
        return [(functions[number](handle, at, period), uints[0]) for number in numbers]

    def engines_below(self, handle: Handle, engines: Engines, most: float) -> bool:
        """Whether all of these say that they were used for so much at most."""
        uints, at, period = self._uints, self._at, self._at_1
        for engine in engines:  # noqa: SIM110 - a generator costs more, and this is asked in every tick
            if engine(handle, at, period) or uints[0] > most:
                return False
        return True

    def energy(self, handle: Handle) -> tuple[int, int]:
        """Millijoules since the driver was loaded."""
        return self._energy(handle, self._at_long), self._long.value

    def power(self, handle: Handle) -> tuple[int, int]:
        """Milliwatts now."""
        return _ask(pynvml.nvmlDeviceGetPowerUsage, handle)

    def temperature(self, handle: Handle) -> tuple[int, int]:
        """Degrees Celsius of the GPU itself."""
        code = self._temperature(handle, 0, self._at)
        return code, self._uints[0]

    def power_limits(self, handle: Handle) -> list[tuple[int, int]]:
        """Milliwatts that the board may draw: as it is enforced now, and by the board itself."""
        functions = pynvml.nvmlDeviceGetEnforcedPowerLimit, pynvml.nvmlDeviceGetPowerManagementDefaultLimit
        return [(code, limit or 0) for code, limit in (_ask(function, handle) for function in functions)]

    def memory_used(self, handle: Handle) -> tuple[int, int]:
        """Bytes of GPU memory in use, what the driver reserves for itself left out where it tells that apart."""
        self._memory[0] = _MEMORY_VERSION
        code = self._memory_info(handle, self._memory)
        if code == SUCCESS:
            return code, self._memory[4]
        code = self._old_memory_info(handle, self._memory)
        return code, self._memory[2] if code == SUCCESS else 0

    def mig(self, handle: Handle) -> tuple[int, int]:
        """1 when the GPU is divided into MIG instances."""
        code, modes = _ask(pynvml.nvmlDeviceGetMigMode, handle)
        return code, modes[0] if modes else 0

    def instances(self, handle: Handle) -> tuple[int, list[int]]:
        """The numbers of the MIG GPU instances that can be seen."""
        code, most = _ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
        found = set()
        for index in range(min(most, _MOST_INSTANCES)) if most else ():
            code, device = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            if code == NOT_FOUND:  # places may be empty
                continue
            if code == SUCCESS:
                code, number = _ask(pynvml.nvmlDeviceGetGpuInstanceId, device)
            if code != SUCCESS:
                return code, []
            found.add(number)
        return (SUCCESS if code == NOT_FOUND else code), sorted(found)

    def processes(self, kind: str, handle: Handle) -> tuple[int, int]:
        """How many contexts there are: Compute, Graphics or MPSCompute."""
        code = FUNCTION_NOT_FOUND
        for function in self._contexts[kind]:
            self._uints[0] = _CONTEXT_ROOM
            code = function(handle, self._at, self._context_list)
            if code not in (FUNCTION_NOT_FOUND, VERSION_MISMATCH, DEPRECATED):
                break
        if code == INSUFFICIENT_SIZE:  # then the number is that of the contexts that there are
            code = SUCCESS
        if code == SUCCESS and self._uints[0] > _MOST_CONTEXTS:
            code = UNKNOWN
        return code, self._uints[0] if code == SUCCESS else 0

    def context_pids(self, kind: str, handle: Handle) -> tuple[int, list[int]]:
        """The process of each context; INSUFFICIENT_SIZE where there are more than anybody needs to know."""
        listed, code = (_Q * (_CONTEXT_WORDS * _PIDS_ROOM))(), FUNCTION_NOT_FOUND
        entry = _CONTEXT_WORDS
        for function, entry in zip(self._contexts[kind], _ENTRIES, strict=True):  # noqa: B007 - that of the one that answered
            self._uints[0] = _PIDS_ROOM
            code = function(handle, self._at, listed)
            if code not in (FUNCTION_NOT_FOUND, VERSION_MISMATCH, DEPRECATED):
                break
        if code == SUCCESS and self._uints[0] > _PIDS_ROOM:
            code = UNKNOWN
        return code, [listed[entry * at] & 0xFFFFFFFF for at in range(self._uints[0])] if code == SUCCESS else []

    def process_use(self, handle: Handle, since: int) -> tuple[int, list[tuple[int, int, list[int]]]]:
        """Use by process newer than ``since``: process id, time in microseconds, percents (SM, memory, encoder, decoder)."""
        self._uints[0] = self._process_room
        code = self._process_use(handle, self._process_list, self._at, _Q(since))
        if code == INSUFFICIENT_SIZE:
            self._make_process_room(min(2 * self._uints[0] + 8, 4096))
            self._uints[0] = self._process_room
            code = self._process_use(handle, self._process_list, self._at, _Q(since))
        if code != SUCCESS:
            return code, []
        words = self._process_words[: 8 * min(self._uints[0], self._process_room)].tolist()
        rows = [words[at : at + 8] for at in range(0, len(words), 8)]
        return code, [(row[0], row[2] | row[3] << 32, row[4:]) for row in rows]

    def counters(self, handle: Handle, fields: "Counters") -> tuple[int, list[tuple[int, int, int]]]:
        """Byte counters: for each field its own code, its value and the number of bits after which it wraps."""
        code = self._fields(handle, len(fields), fields)
        if code != SUCCESS:
            return code, []
        found = []
        for at in range(0, 5 * len(fields), 5):
            form, own = fields.words[at + 3] & 0xFFFFFFFF, fields.words[at + 3] >> 32
            bits = _COUNTER_BITS.get(form, 0)
            found.append((own or (SUCCESS if bits else NOT_SUPPORTED), fields.words[at + 4] & ((1 << bits) - 1), bits))
        return code, found

    def gpm_supported(self, handle: Handle) -> tuple[int, bool]:
        """Whether the GPU counts its own activity (GPM: Hopper and later)."""
        self._uints[0], self._uints[1] = _GPM_VERSION, 0
        code = self._gpm_support(handle, self._at)
        return code, code == SUCCESS and bool(self._uints[1])

    def gpm_buffer(self) -> tuple[int, Handle]:
        """Room for one GPM sample; to be given back."""
        code, buffer = _ask(pynvml.nvmlGpmSampleAlloc)
        return code, ctypes.cast(buffer, ctypes.c_void_p) if buffer is not None else None

    def gpm_give_back(self, buffer: Handle) -> None:
        """The end of `gpm_buffer`."""
        _ask(pynvml.nvmlGpmSampleFree, buffer)

    def gpm_sample(self, handle: Handle, instance: int | None, buffer: Handle) -> int:
        """Take a sample of a GPU, or of one MIG instance of it."""
        if instance is None:
            return self._gpm_sample(handle, buffer)
        return self._gpm_mig_sample(handle, ctypes.c_uint(instance), buffer)

    def gpm_metrics(self, first: Handle, second: Handle, metrics: tuple[int, ...]) -> tuple[int, list[float | None]]:
        """The means of metrics between two samples, at least 0.1 s apart; None for one that is not given."""
        words, values = self._gpm_words, self._gpm_values
        words[0] = _GPM_VERSION | len(metrics) << 32
        words[1], words[2] = first.value, second.value
        for place, metric in enumerate(metrics):
            words[3 + 5 * place] = metric
        code = self._gpm_metrics(self._gpm)
        ends = range(3, 3 + 5 * len(metrics), 5)
        return code, [None if words[at] >> 32 or code else values[at + 1] for at in ends]

    def samples(self, handle: Handle, since: int) -> tuple[int, list[int], list[int] | list[float]]:
        """Utilisation samples newer than ``since``: their times in microseconds (of no known clock) and percents."""
        kind, count = self._at, self._at_1
        self._uints[1] = self._room
        code = self._samples(handle, _UTILISATION_SAMPLES, _Q(since), kind, count, self._ring)
        if code in (INSUFFICIENT_SIZE, INVALID_ARGUMENT):
            code = self._samples(handle, _UTILISATION_SAMPLES, _Q(since), kind, count, None)
            if code == SUCCESS:
                wanted = min(self._uints[1], _MOST_SAMPLES)
                if wanted > self._room:
                    self._make_room(wanted)
                self._uints[1] = wanted  # exactly: not every library takes a larger room
                code = self._samples(handle, _UTILISATION_SAMPLES, _Q(since), kind, count, self._ring)
        if code != SUCCESS:
            return code, [], []
        got = min(self._uints[1], self._room)
        values, first, step = self._layouts.get(self._uints[0], self._layouts[_WIDEST])
        return code, self._stamps[: 2 * got : 2].tolist(), values[first : step * got : step].tolist()

    def samples_at_rest(self, handle: Handle, since: int, engines: Engines, dry: bool) -> int | None:
        """The time of the newest sample, where all samples newer than ``since`` and the engines are zero.

        ``since`` itself when the ring ran dry, and ``dry`` or the use at this moment says that nothing ran. None where any
        answer is another one: then ask one by one.
        """
        uints, at, at_1 = self._uints, self._at, self._at_1
        self._newer.value, uints[1] = since, self._room
        code, newest = self._samples(handle, _UTILISATION_SAMPLES, self._newer, at, at_1, self._ring), since
        if code == SUCCESS:
            values, first, step = self._layouts.get(uints[0], self._layouts[_WIDEST])
            got = min(uints[1], self._room)
            if not got or not self._zeros.startswith(values[first : step * got : step].tobytes()):
                return None
            newest = self._stamps[2 * got - 2]
            if not since < self._stamps[0] <= newest:  # as of a driver that ignores the time we gave
                return None
        elif code != NOT_FOUND or not (dry or (self._rates(handle, at), uints[0]) == _IDLE):
            return None
        for engine in engines:
            if engine(handle, at, at_1) or uints[0]:
                return None
        return newest

    def engine_calls(self, numbers: Sequence[int]) -> Engines:
        """Some of ENGINES as `rest` takes them."""
        return tuple([self._engines[number] for number in numbers])

    def _make_room(self, samples: int) -> None:
        self._room = samples
        self._ring = (_SAMPLE * samples)()
        whole = memoryview(self._ring).cast("B")
        self._stamps = whole.cast("Q")
        views = {form: whole.cast(form) for form, _, _ in _LAYOUTS.values()}  # type: ignore[call-overload] # all valid
        self._layouts = {kind: (views[form], first, step) for kind, (form, first, step) in _LAYOUTS.items()}
        self._zeros = bytes(8 * samples)

    def _make_process_room(self, entries: int) -> None:
        self._process_room = entries
        self._process_list = (_USE * entries)()
        self._process_words = memoryview(self._process_list).cast("B").cast("I")


class Counters:
    """The byte counters that one GPU is asked for in one call: numbers of NVML fields."""

    def __init__(self, numbers: tuple[int, ...], links: tuple[int, ...]) -> None:
        self._buffer = (_COUNTER * len(numbers))()
        self._as_parameter_ = self._buffer
        self.words = memoryview(self._buffer).cast("B").cast("Q")
        for place, number in enumerate(numbers):
            self.words[5 * place] = number | (_ALL_LINKS << 32 if number in links else 0)

    def __len__(self) -> int:
        return len(self.words) // 5


def _load() -> None:
    """Where the loader does not find the library by itself, give the binding the one that lies elsewhere."""
    if pynvml.nvmlLib is not None:
        return
    for place in _PLACES:
        try:
            pynvml.nvmlLib = ctypes.CDLL(place)
        except OSError as error:
            if "No such file" not in str(error):
                raise LibraryMissingError(f"the driver's library cannot be loaded: {error}", broken=True) from error
        else:
            return


def _ask(function: Callable[..., Any], *arguments: object) -> tuple[int, Any]:
    """Call the binding: (0, value), or (code, None)."""
    try:
        return SUCCESS, function(*arguments)
    except UnicodeDecodeError:
        raise
    except Exception as error:  # noqa: BLE001 # the binding raises more than NVMLError: `_code` says what
        return _code(error), None


def _code(error: Exception) -> int:
    """The NVML code of what the binding raised."""
    return int(error.value) if isinstance(error, pynvml.NVMLError) else UNKNOWN


def _lists(kind: str) -> tuple[Callable[..., int], ...]:
    """The versions of a list of contexts that the library has, the newest first; entries grew in version 2."""
    name = f"nvmlDeviceGet{kind}RunningProcesses"
    return tuple(_function(f"{name}{version}") for version in ("_v3", "_v2", ""))


def _missing(*_arguments: object) -> int:
    return FUNCTION_NOT_FOUND


def _function(name: str) -> Callable[..., int]:
    """A function of the library that the binding loaded, called without its checks."""
    try:
        function = pynvml.nvmlLib[name]
    except AttributeError:
        return _missing
    return function  # type: ignore[no-any-return] # a ctypes function; the binding has no types
