"""A driver's library whose functions are written in a test, in the memory layouts of NVIDIA's nvml.h; and one board that it drives."""

import ctypes
import inspect
import struct
from collections.abc import Callable
from typing import Any

import pynvml

from costguard.readers.nvml.library import Nvml

_PLAIN = ctypes.CDLL(None)._FuncPtr  # a function of which nobody knows what it takes, as those of a real library

Function = Callable[..., int]


class Library:
    """Functions by name, each of as many machine words as it takes; what is not here the library does not have."""

    def __init__(self) -> None:
        self._made: list[object] = []  # which lives as long as it may be called
        self._kept: dict[str, Any] = {}
        self.calls: list[str] = []
        self.define("nvmlInitWithFlags", lambda flags: 0)
        self.define("nvmlShutdown", lambda: 0)

    def define(self, name: str, function: Function) -> None:
        """Let it answer so; an earlier answer under this name is forgotten."""

        def called(*words: int) -> int:
            self.calls.append(name)
            return function(*words)

        count = len(inspect.signature(function).parameters)
        pynvml._nvmlGetFunctionPointer_cache.clear()
        made = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * count)(called)
        self._made.append(made)
        self._kept[name] = _PLAIN(ctypes.cast(made, ctypes.c_void_p).value or 0)

    def lacks(self, name: str) -> None:
        """As a library of another version."""
        del self._kept[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._kept:
            raise AttributeError(name)
        return self._kept[name]

    __getattr__ = __getitem__


def put(at: int, form: str, *values: float) -> int:
    """Write into the memory of whoever calls."""
    data = struct.pack(form, *values)
    ctypes.memmove(at, data, len(data))
    return 0


def take(at: int, form: str) -> tuple[Any, ...]:
    """What lies there."""
    return struct.unpack(form, ctypes.string_at(at, struct.calcsize(form)))


Number = tuple[int, int]
"""A code and a value."""

Metrics = dict[int, float | None]
"""Activity by metric; None: not given."""


class Board:
    """What the driver answers of one GPU: each a code and a value. It counts its activity where ``supported`` says so."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.energy: Number = (0, 1_000_000)  # millijoules
        self.power: Number = (0, 70_000)  # milliwatts
        self.limits: list[Number] = [(0, 700_000), (0, 700_000)]
        self.contexts: dict[str, Number] = {"Compute": (0, 0), "MPSCompute": (0, 0), "Graphics": (0, 0)}
        self.handle = ctypes.c_void_p(7)
        self.supported: Number = (0, 0)
        self.room = self.sampled = self.measured = 0  # codes: of room for a sample, of a sample, of the means
        self.metrics: Metrics = {}
        self.instances: dict[int, Metrics] = {}
        self.places: Number = (0, 7)  # of instances
        self.lent: list[int] = []  # rooms that were not given back
        self.fields: dict[int, tuple[int, int, int]] = {}  # kind of number, code, value
        self.fielded = 0
        self.users: tuple[int, list[tuple[int, int, tuple[int, int, int, int]]]] = (0, [])  # process, time, percents
        self.ring: list[tuple[int, float]] = []  # time in microseconds, percent
        self.ring_code, self.ring_from = 0, True  # whether it heeds from when samples are wanted
        self.rates: Number = (0, 0)
        self.engines: dict[str, Number] = dict.fromkeys(("Encoder", "Decoder", "Jpg", "Ofa"), (0, 0))
        self.index: Number = (0, 0)
        self.texts: dict[str, tuple[int, bytes]] = {"Name": (0, b"H100"), "UUID": (0, b"GPU-1")}
        self.memory: Number = (0, 0)  # bytes in use
        self.mig: Number = (0, 0)
        self._samples: dict[int, int | None] = {}  # of which instance each room has a sample
        self._order: list[int] = []  # of samples
        library.define(
            "nvmlDeviceGetTotalEnergyConsumption", lambda gpu, to: put(to, "Q", self.energy[1]) or self.energy[0]
        )
        library.define("nvmlDeviceGetPowerUsage", lambda gpu, to: put(to, "I", self.power[1]) or self.power[0])
        for place, name in enumerate(("EnforcedPowerLimit", "PowerManagementDefaultLimit")):
            library.define(f"nvmlDeviceGet{name}", self._limit(place))
        for kind in self.contexts:
            library.define(f"nvmlDeviceGet{kind}RunningProcesses_v3", self._list(kind))
        library.define(
            "nvmlGpmQueryDeviceSupport", lambda gpu, to: put(to + 4, "I", self.supported[1]) or self.supported[0]
        )
        library.define("nvmlGpmSampleAlloc", self._lend)
        library.define("nvmlGpmSampleFree", self._return)
        library.define("nvmlGpmSampleGet", lambda gpu, room: self._sample(room, None))
        library.define("nvmlGpmMigSampleGet", lambda gpu, instance, room: self._sample(room, instance))
        library.define("nvmlGpmMetricsGet", self._means)
        library.define("nvmlDeviceGetMaxMigDeviceCount", lambda gpu, to: put(to, "I", self.places[1]) or self.places[0])
        library.define("nvmlDeviceGetMigDeviceHandleByIndex", self._place)
        library.define(
            "nvmlDeviceGetGpuInstanceId", lambda device, to: put(to, "I", list(self.instances)[device - 100])
        )
        library.define("nvmlDeviceGetFieldValues", self._values)
        library.define("nvmlDeviceGetProcessUtilization", lambda gpu, to, count, since: self._use(to, count, since))
        library.define("nvmlDeviceGetSamples", self._ring)
        library.define(
            "nvmlDeviceGetUtilizationRates", lambda gpu, to: put(to, "II", self.rates[1], 99) or self.rates[0]
        )
        for name in self.engines:
            library.define(f"nvmlDeviceGet{name}Utilization", self._engine(name))
        library.define("nvmlDeviceGetIndex", lambda gpu, to: put(to, "I", self.index[1]) or self.index[0])
        for name in self.texts:
            library.define(f"nvmlDeviceGet{name}", self._text(name))
        library.define(
            "nvmlDeviceGetMemoryInfo_v2", lambda gpu, to: put(to + 32, "Q", self.memory[1]) or self.memory[0]
        )
        library.define(
            "nvmlDeviceGetMigMode",
            lambda gpu, now, later: put(now, "I", self.mig[1]) or put(later, "I", 9) or self.mig[0],
        )
        self.nvml = Nvml()

    def _ring(self, gpu: int, kind: int, since: int, form: int, count: int, to: int) -> int:
        rows = [(at, use) for at, use in self.ring if at > since or not self.ring_from]
        if self.ring_code:
            return self.ring_code
        if not rows:
            return 6
        for place, (at, use) in enumerate(rows):
            put(to + 16 * place, "Qd", at, use)
        return put(form, "I", 0) or put(count, "I", len(rows))

    def _engine(self, name: str) -> Function:
        return lambda gpu, to, period: (
            put(to, "I", self.engines[name][1]) or put(period, "I", 99) or self.engines[name][0]
        )

    def _text(self, name: str) -> Function:
        def answer(gpu: int, to: int, size: int) -> int:
            code, text = self.texts[name]
            ctypes.memmove(to, text + b"\0", len(text) + 1)
            return code

        return answer

    def _lend(self, to: int) -> int:
        if self.room:
            return self.room
        number = 1000 + len(self._samples)
        self._samples[number] = None
        self.lent.append(number)
        return put(to, "Q", number)

    def _return(self, room: int) -> int:
        self.lent.remove(room)
        return 0

    def _sample(self, room: int, instance: int | None) -> int:
        if instance is not None and instance not in self.instances:
            return 2
        assert room in self.lent
        self._samples[room] = instance
        self._order = [*(one for one in self._order if one != room), room]
        return self.sampled

    def _means(self, to: int) -> int:
        _, count, first, second = take(to, "IIQQ")
        assert self._order.index(first) < self._order.index(second), "the older one first"
        of = self._samples[second]
        values = self.metrics if of is None else self.instances.get(of, {})
        for at in range(to + 24, to + 24 + 40 * count, 40):
            (metric,) = take(at, "I")
            value = values.get(metric)
            put(at + 4, "=Id", 3 if value is None else 0, 0.0 if value is None else value)
        return self.measured

    def _place(self, gpu: int, index: int, to: int) -> int:
        return put(to, "Q", 100 + index) if index < len(self.instances) else 6

    def _values(self, gpu: int, count: int, to: int) -> int:
        for at in range(to, to + 40 * count, 40):
            number, scope = take(at, "II")
            assert scope == (0xFFFFFFFF if number < 190 else 0)
            kind, code, value = self.fields.get(number, (0, 3, 0))
            put(at + 24, "IIQ", kind, code, value)
        return self.fielded

    def _use(self, to: int, count: int, since: int) -> int:
        code, rows = self.users
        for place, (pid, at, percents) in enumerate(rows):
            put(to + 32 * place, "I4xQIIII", pid, at, *percents)
        return put(count, "I", len(rows)) or code

    def _limit(self, place: int) -> Function:
        return lambda gpu, to: put(to, "I", self.limits[place][1]) or self.limits[place][0]

    def _list(self, kind: str) -> Function:
        return lambda gpu, count, to: put(count, "I", self.contexts[kind][1]) or self.contexts[kind][0]

    def asked(self) -> list[str]:
        """What was called since the last time, in short."""
        found = [name.removeprefix("nvmlDeviceGet").removesuffix("_v3") for name in self.library.calls]
        self.library.calls.clear()
        return found
