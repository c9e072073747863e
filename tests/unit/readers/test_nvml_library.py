"""How each call of the driver's library is made and read, against one whose functions are written here: what it was given, what it gives."""

import ctypes

import pytest

from costguard.readers.nvml.codes import (
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    UNKNOWN,
    VERSION_MISMATCH,
    LibraryMissingError,
    NvmlError,
)
from costguard.readers.nvml.library import Counters, Nvml
from tests.unit.readers.driver import Function, Library, put, take

GPU = ctypes.c_void_p(0x1234)
FAILURES = (NOT_SUPPORTED, 15, UNKNOWN)


# ---- the beginning and the end ----------------------------------------------------------------


def test_a_library_too_old_to_take_flags_is_begun_without_them(library: Library) -> None:
    """And let go of once."""
    library.lacks("nvmlInitWithFlags")
    library.define("nvmlInit_v2", lambda: 0)
    Nvml().shutdown()
    assert library.calls == ["nvmlInit_v2", "nvmlShutdown"]


def test_a_failure_says_what_it_is_or_what_whoever_calls_knows_better() -> None:
    """With NVML's number and the function, so that people can look it up."""
    assert str(NvmlError(16, "GetName")) == "the GPU must be reset (NVML 16, GetName)"
    assert str(NvmlError(6, "GetHandle", "not listed")) == "not listed (NVML 6, GetHandle)"
    assert str(NvmlError(12345, "GetName")) == "the driver fails (NVML 12345, GetName)"


@pytest.mark.parametrize("code", [9, 18, UNKNOWN])
def test_what_cannot_be_begun_says_its_code(library: Library, code: int) -> None:
    """By either of the two functions."""
    library.define("nvmlInitWithFlags", lambda flags: code)
    with pytest.raises(NvmlError, match=rf"NVML {code}, Init\)") as raised:
        Nvml()
    assert raised.value.code == code
    library.lacks("nvmlInitWithFlags")
    library.define("nvmlInit_v2", lambda: code)
    with pytest.raises(NvmlError, match=rf"NVML {code}, Init\)"):
        Nvml()


def test_a_library_that_says_it_is_missing_is_missing(library: Library) -> None:
    """As the driver's own stub of it does."""
    library.define("nvmlInitWithFlags", lambda flags: 12)
    with pytest.raises(LibraryMissingError, match=r"missing \(NVML 12\)") as raised:
        Nvml()
    assert not raised.value.broken


# ---- which GPUs there are ---------------------------------------------------------------------


@pytest.mark.parametrize(("given", "found"), [(0, (0, 0)), (8, (0, 8)), (256, (0, 256)), (257, (UNKNOWN, 0))])
def test_a_number_of_gpus(library: Library, given: int, found: tuple[int, int]) -> None:
    """More than there can be is garbage."""
    library.define("nvmlDeviceGetCount_v2", lambda to: put(to, "I", given))
    assert Nvml().count() == found


def test_a_number_of_gpus_that_is_not_told_is_no_number(library: Library) -> None:
    """Whatever lies in memory then."""
    library.define("nvmlDeviceGetCount_v2", lambda to: put(to, "I", 3) + UNKNOWN)
    assert Nvml().count() == (UNKNOWN, 0)


@pytest.mark.parametrize(
    ("refusals", "asked"),
    [
        ([], ["0000ABCD:0A:00.0"]),
        ([NOT_FOUND], ["0000ABCD:0A:00.0", "abcd:0a:00.0"]),
        ([INVALID_ARGUMENT], ["0000ABCD:0A:00.0", "abcd:0a:00.0"]),
        ([15], ["0000ABCD:0A:00.0"]),
        ([NOT_FOUND, NOT_FOUND], ["0000ABCD:0A:00.0", "abcd:0a:00.0"]),
    ],
)
def test_an_address_is_looked_up_in_both_spellings(library: Library, refusals: list[int], asked: list[str]) -> None:
    """The driver's own first, that of sysfs where nothing is found by it."""
    found: list[str] = []

    def look(text: int, to: int) -> int:
        found.append(ctypes.string_at(text).decode())
        return refusals[len(found) - 1] if len(found) <= len(refusals) else put(to, "Q", 77)

    library.define("nvmlDeviceGetHandleByPciBusId_v2", look)
    code, handle = Nvml().open_address("abcd:0a:00.0")
    assert found == asked
    assert code == (refusals[-1] if len(refusals) == len(asked) else 0)
    assert (handle is None) == bool(code)


@pytest.mark.parametrize(
    ("domain", "bus", "device", "words"), [(0, 1, 0, "0000:01:00.0"), (0x10000, 0xAB, 0x1F, "10000:ab:1f.0")]
)
def test_an_address_is_told_as_sysfs_writes_it(
    library: Library, domain: int, bus: int, device: int, words: str
) -> None:
    """In lower case, with four digits at least."""
    library.define("nvmlDeviceGetPciInfo_v3", lambda gpu, to: put(to + 16, "III", domain, bus, device))
    assert Nvml().address(GPU) == (SUCCESS, words)
    library.define("nvmlDeviceGetPciInfo_v3", lambda gpu, to: 15)
    assert Nvml().address(GPU) == (15, "")


def test_two_handles_of_one_gpu_are_the_same(library: Library) -> None:
    """Whichever call gave them."""
    nvml = Nvml()
    assert nvml.same(ctypes.c_void_p(5), ctypes.cast(5, ctypes.POINTER(ctypes.c_int)))
    assert not nvml.same(ctypes.c_void_p(5), ctypes.c_void_p(6))


@pytest.mark.parametrize("code", FAILURES)
def test_a_name_that_is_not_told_is_empty(library: Library, code: int) -> None:
    """With the code of the failure; so is one that the library has no call for."""
    for name in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"):
        library.define(name, lambda gpu, to, size: ctypes.memmove(to, b"H100\0", 5) and 0)
    assert (Nvml().name(GPU), Nvml().uuid(GPU)) == ((SUCCESS, "H100"), (SUCCESS, "H100"))
    for name in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"):
        library.define(name, lambda gpu, to, size: code)
    assert (Nvml().name(GPU), Nvml().uuid(GPU)) == ((code, ""), (code, ""))


# ---- numbers ----------------------------------------------------------------------------------


def test_each_engine_has_its_own_call_and_code(library: Library) -> None:
    """In the order of ENGINES, and only those that are asked for."""
    for number, (name, code) in enumerate({"Encoder": 0, "Decoder": 0, "Jpg": 3, "Ofa": 0}.items()):
        library.define(f"nvmlDeviceGet{name}Utilization", engine(10 * number, code))
    found = Nvml().engines(GPU, (0, 1, 2, 3))
    assert [code or (code, value) for code, value in found] == [(0, 0), (0, 10), 3, (0, 30)]
    assert Nvml().engines(GPU, (3, 1)) == [(0, 30), (0, 10)]
    assert Nvml().engines(GPU, ()) == []


def engine(percent: int, code: int) -> Function:
    return lambda gpu, to, period: put(to, "I", percent) or put(period, "I", 99) or code


def test_use_energy_and_power_are_read_whole(library: Library) -> None:
    """Energy has 64 bits; of the use the first number is that of the GPU."""
    library.define("nvmlDeviceGetUtilizationRates", lambda gpu, to: put(to, "II", 70, 30))
    library.define("nvmlDeviceGetTotalEnergyConsumption", lambda gpu, to: put(to, "Q", (1 << 40) + 5))
    library.define("nvmlDeviceGetPowerUsage", lambda gpu, to: put(to, "I", 71_000))
    nvml = Nvml()
    assert nvml.rates(GPU) == (SUCCESS, 70)
    assert nvml.energy(GPU) == (SUCCESS, (1 << 40) + 5)
    assert nvml.power(GPU) == (SUCCESS, 71_000)


def test_the_temperature_is_that_of_the_gpu_itself(library: Library) -> None:
    """The driver knows others, too; and its code is told."""
    library.define("nvmlDeviceGetTemperature", lambda gpu, sensor, to: put(to, "I", 900 if sensor else 71))
    assert Nvml().temperature(GPU) == (SUCCESS, 71)
    library.define("nvmlDeviceGetTemperature", lambda gpu, sensor, to: put(to, "I", 71) + UNKNOWN)
    assert Nvml().temperature(GPU)[0] == UNKNOWN


def test_the_power_limits_are_told_apart(library: Library) -> None:
    """One that is not told is none."""
    library.define("nvmlDeviceGetEnforcedPowerLimit", lambda gpu, to: put(to, "I", 200_000))
    library.define("nvmlDeviceGetPowerManagementDefaultLimit", lambda gpu, to: put(to, "I", 700_000))
    assert Nvml().power_limits(GPU) == [(SUCCESS, 200_000), (SUCCESS, 700_000)]
    library.define("nvmlDeviceGetEnforcedPowerLimit", lambda gpu, to: put(to, "I", 5) + 3)
    assert Nvml().power_limits(GPU) == [(3, 0), (SUCCESS, 700_000)]


def test_memory_in_use_without_what_the_driver_reserves(library: Library) -> None:
    """By the newer call where it answers, else by the older one."""
    versions: list[int] = []

    def newer(gpu: int, to: int) -> int:
        versions.append(take(to, "Q")[0] & 0xFFFFFFFF)
        return put(to + 8, "QQQQ", 80, 7, 60, 13)

    library.define("nvmlDeviceGetMemoryInfo_v2", newer)
    library.define("nvmlDeviceGetMemoryInfo", lambda gpu, to: put(to, "QQQ", 80, 60, 20))
    nvml = Nvml()
    assert [nvml.memory_used(GPU), nvml.memory_used(GPU)] == [(SUCCESS, 13)] * 2
    assert versions == [40 | 2 << 24] * 2, "the size of the structure and its version, anew for each call"
    library.define("nvmlDeviceGetMemoryInfo_v2", lambda gpu, to: VERSION_MISMATCH)
    assert Nvml().memory_used(GPU) == (SUCCESS, 20)
    library.define("nvmlDeviceGetMemoryInfo", lambda gpu, to: put(to, "QQQ", 80, 60, 20) + 15)
    assert Nvml().memory_used(GPU) == (15, 0)


# ---- MIG --------------------------------------------------------------------------------------


def divided(library: Library, most: int, places: dict[int, int | None], codes: dict[int, int] | None = None) -> None:
    """Instances by place, each with its number; None: it cannot tell its number."""
    library.define("nvmlDeviceGetMaxMigDeviceCount", lambda gpu, to: put(to, "I", most))

    def open_place(gpu: int, index: int, to: int) -> int:
        if codes and index in codes:
            return codes[index]
        return put(to, "Q", 1000 + index) if index in places else NOT_FOUND

    def number(gpu: int, to: int) -> int:
        found = places[gpu - 1000]
        return 15 if found is None else put(to, "I", found)

    library.define("nvmlDeviceGetMigDeviceHandleByIndex", open_place)
    library.define("nvmlDeviceGetGpuInstanceId", number)


@pytest.mark.parametrize(
    ("most", "places", "codes", "found"),
    [
        (7, {0: 5, 1: 3}, {}, (SUCCESS, [3, 5])),
        (7, {2: 5, 4: 3, 6: 9}, {}, (SUCCESS, [3, 5, 9])),
        (7, {0: 5, 1: 5}, {}, (SUCCESS, [5])),
        (7, {}, {}, (SUCCESS, [])),
        (0, {0: 5}, {}, (SUCCESS, [])),
        (3, {2: 1, 3: 2}, {}, (SUCCESS, [1])),
        (4000, {63: 1, 64: 2}, {}, (SUCCESS, [1])),
        (7, {0: 5}, {1: 15}, (15, [])),
        (7, {0: 5, 2: None}, {}, (15, [])),
        (7, {0: 5}, {1: 4}, (4, [])),
    ],
)
def test_the_instances_that_can_be_seen(
    library: Library, most: int, places: dict[int, int | None], codes: dict[int, int], found: tuple[int, list[int]]
) -> None:
    """Places may be empty; a failure is not *none*."""
    divided(library, most, places, codes)
    assert Nvml().instances(GPU) == found


def test_without_the_number_of_places_there_is_no_instance(library: Library) -> None:
    """The code says why."""
    assert Nvml().instances(GPU) == (FUNCTION_NOT_FOUND, [])


def test_whether_it_is_divided_is_what_it_is_now(library: Library) -> None:
    """Not what it will be after a reset."""
    library.define("nvmlDeviceGetMigMode", lambda gpu, now, later: put(now, "I", 1) or put(later, "I", 0))
    assert Nvml().mig(GPU) == (SUCCESS, 1)
    library.define("nvmlDeviceGetMigMode", lambda gpu, now, later: NOT_SUPPORTED)
    assert Nvml().mig(GPU) == (NOT_SUPPORTED, 0)


# ---- who is there -----------------------------------------------------------------------------

LISTS = "nvmlDeviceGetComputeRunningProcesses"


@pytest.mark.parametrize(
    ("code", "number", "found"),
    [
        (0, 0, (SUCCESS, 0)), (0, 64, (SUCCESS, 64)), (INSUFFICIENT_SIZE, 65, (SUCCESS, 65)),
        (0, 100_000, (SUCCESS, 100_000)), (0, 100_001, (UNKNOWN, 0)), (INSUFFICIENT_SIZE, 100_001, (UNKNOWN, 0)),
        (15, 5, (15, 0)), (NOT_SUPPORTED, 5, (NOT_SUPPORTED, 0)),
    ],
)  # fmt: skip
def test_how_many_contexts_there_are(library: Library, code: int, number: int, found: tuple[int, int]) -> None:
    """Also more than there is room for; more than there can be is garbage."""
    rooms: list[int] = []

    def answer(gpu: int, count: int, to: int) -> int:
        rooms.append(take(count, "I")[0])
        put(to, f"{3 * 64}Q", *[7] * 3 * 64)
        return put(count, "I", number) or code

    library.define(f"{LISTS}_v3", answer)
    nvml = Nvml()
    assert [nvml.processes("Compute", GPU), nvml.processes("Compute", GPU)] == [found] * 2
    assert rooms == [64, 64]


@pytest.mark.parametrize("missing", [None, FUNCTION_NOT_FOUND, VERSION_MISMATCH, 26])
def test_the_newest_list_that_the_library_has(library: Library, missing: int | None) -> None:
    """Given up, of another version, or not there: the older one is asked; any other failure is an answer."""
    if missing is not None:
        library.define(f"{LISTS}_v3", lambda gpu, count, to: missing)
    library.define(f"{LISTS}_v2", lambda gpu, count, to: put(count, "I", 2))
    library.define(LISTS, lambda gpu, count, to: put(count, "I", 1))
    assert Nvml().processes("Compute", GPU) == (SUCCESS, 2)
    library.define(f"{LISTS}_v2", lambda gpu, count, to: 15)
    assert Nvml().processes("Compute", GPU) == (15, 0)
    assert Nvml().processes("Graphics", GPU) == (FUNCTION_NOT_FOUND, 0)


def rows(number: int) -> list[tuple[int, int, int, int, int, int]]:
    return [(100 + place, (1 << 33) + place, place, 2, 3, 4) for place in range(number)]


def users(library: Library, there: int, said: int | None = None) -> list[int]:
    """So many processes; the rooms that were given."""
    rooms: list[int] = []

    def answer(gpu: int, to: int, count: int, since: int) -> int:
        (room,) = take(count, "I")
        rooms.append(room)
        assert since == 12345
        put(count, "I", there if said is None else said)
        if there > room:
            return INSUFFICIENT_SIZE
        for place, row in enumerate(rows(there)):
            put(to + 32 * place, "I4xQIIII", *row)
        return 0

    library.define("nvmlDeviceGetProcessUtilization", answer)
    return rooms


@pytest.mark.parametrize(
    ("there", "rooms"), [(0, [32]), (1, [32]), (32, [32]), (33, [32, 74]), (2000, [32, 4008]), (2100, [32, 4096])]
)
def test_use_by_process(library: Library, there: int, rooms: list[int]) -> None:
    """With their times in 64 bits and four numbers each; there is room for those that come while we ask."""
    given = users(library, there)
    code, found = Nvml().process_use(GPU, 12345)
    assert (code, given) == (SUCCESS, rooms)
    assert found == [(pid, at, list(percents)) for pid, at, *percents in rows(there)]


def test_a_larger_room_stays(library: Library) -> None:
    """What was too small once is not tried again."""
    given = users(library, 40)
    nvml = Nvml()
    assert len(nvml.process_use(GPU, 12345)[1]) == len(nvml.process_use(GPU, 12345)[1]) == 40
    assert given == [32, 88, 88]


def test_no_more_processes_are_read_than_there_is_room_for(library: Library) -> None:
    """A number that cannot be is none of ours."""
    users(library, 2, said=1_000_000)
    assert len(Nvml().process_use(GPU, 12345)[1]) == 32
    users(library, 5000)
    assert Nvml().process_use(GPU, 12345) == (INSUFFICIENT_SIZE, [])


# ---- bytes and activity -----------------------------------------------------------------------


def field(number: int, kind: int, code: int, value: int) -> tuple[int, int, int, int]:
    return number, kind, code, value


def test_byte_counters_have_their_own_codes_and_widths(library: Library) -> None:
    """An unknown kind of number is not there; what lies above a counter's width is no part of it; links are summed up."""
    asked: list[tuple[int, ...]] = []
    answers = [(1, 0, (1 << 32) + 5), (2, 0, (1 << 40) + 6), (3, 0, (1 << 63) + 7), (0, 0, 8), (1, 15, 9), (7, 4, 10)]

    def answer(gpu: int, count: int, to: int) -> int:
        for place, (kind, code, value) in enumerate(answers[:count]):
            asked.append(take(to + 40 * place, "II"))
            put(to + 40 * place + 24, "IIQ", kind, code, value)
        return 0

    library.define("nvmlDeviceGetFieldValues", answer)
    fields = Counters((197, 138, 139, 198, 140, 141), (138, 139, 140, 141))
    assert len(fields) == 6
    code, found = Nvml().counters(GPU, fields)
    assert code == SUCCESS
    assert [one if not one[0] else one[0] for one in found] == [
        (0, 5, 32), (0, (1 << 40) + 6, 64), (0, (1 << 63) + 7, 64), NOT_SUPPORTED, 15, 4,
    ]  # fmt: skip
    whole = 0xFFFFFFFF
    assert asked == [(197, 0), (138, whole), (139, whole), (198, 0), (140, whole), (141, whole)]
    assert Nvml().counters(GPU, Counters((197,), ()))[1] == [(0, 5, 32)]
    library.define("nvmlDeviceGetFieldValues", lambda gpu, count, to: 15)
    assert Nvml().counters(GPU, fields) == (15, [])


@pytest.mark.parametrize(
    ("code", "says", "found"), [(0, 1, (0, True)), (0, 0, (0, False)), (3, 1, (3, False)), (15, 1, (15, False))]
)
def test_whether_it_counts_its_own_activity(library: Library, code: int, says: int, found: tuple[int, bool]) -> None:
    """A library that fails has not said so."""
    given: list[tuple[int, ...]] = []

    def answer(gpu: int, to: int) -> int:
        given.append(take(to, "II"))
        return put(to + 4, "I", says) or code

    library.define("nvmlGpmQueryDeviceSupport", answer)
    nvml = Nvml()
    assert [nvml.gpm_supported(GPU), nvml.gpm_supported(GPU)] == [found] * 2
    assert given == [(1, 0)] * 2, "its version, and no answer from before"


def test_means_of_activity_between_two_samples(library: Library) -> None:
    """Each metric with its own code; the order is that of the question."""
    asked: list[tuple[int, ...]] = []

    def answer(to: int) -> int:
        version, count, first, second = take(to, "IIQQ")
        asked.append((version, count, first, second))
        for place in range(count):
            at = to + 24 + 40 * place
            (metric,) = take(at, "I")
            put(at + 4, "=Id", {5: 3, 6: 1}.get(metric, 0), metric + 0.5)
        return 0

    library.define("nvmlGpmMetricsGet", answer)
    nvml = Nvml()
    one, other = ctypes.c_void_p(111), ctypes.c_void_p(222)
    assert nvml.gpm_metrics(one, other, (2, 5, 61)) == (SUCCESS, [2.5, None, 61.5])
    assert nvml.gpm_metrics(other, one, (5, 10)) == (SUCCESS, [None, 10.5])
    assert nvml.gpm_metrics(one, other, (6, 7, 20, 21, 60, 61, 62)) == (
        SUCCESS,
        [None, 7.5, 20.5, 21.5, 60.5, 61.5, 62.5],
    )
    assert asked == [(1, 3, 111, 222), (1, 2, 222, 111), (1, 7, 111, 222)]
    library.define("nvmlGpmMetricsGet", lambda to: UNKNOWN)
    assert Nvml().gpm_metrics(one, other, (2, 10)) == (UNKNOWN, [None, None])


def test_a_sample_of_a_gpu_and_of_an_instance(library: Library) -> None:
    """Each by its own call."""
    library.define("nvmlGpmSampleGet", lambda gpu, to: 100 + gpu)
    library.define("nvmlGpmMigSampleGet", lambda gpu, instance, to: 200 + instance)
    nvml = Nvml()
    gpu = ctypes.c_void_p(7)
    assert nvml.gpm_sample(gpu, None, ctypes.c_void_p(1)) == 107
    assert [nvml.gpm_sample(gpu, number, ctypes.c_void_p(1)) for number in (0, 5)] == [200, 205]


def test_room_for_a_sample_is_lent_and_given_back(library: Library) -> None:
    """What cannot be lent is nothing to give back."""
    returned: list[int] = []

    def free(at: int) -> int:
        returned.append(at)
        return 0

    library.define("nvmlGpmSampleAlloc", lambda to: put(to, "Q", 4321))
    library.define("nvmlGpmSampleFree", free)
    nvml = Nvml()
    code, buffer = nvml.gpm_buffer()
    assert (code, buffer.value) == (SUCCESS, 4321)
    nvml.gpm_give_back(buffer)
    assert returned == [4321]
    library.define("nvmlGpmSampleAlloc", lambda to: 20)
    assert Nvml().gpm_buffer() == (20, None)


# ---- the ring ---------------------------------------------------------------------------------

FORMS = {0: "d", 1: "I4x", 2: "Q", 3: "Q", 4: "q", 5: "i4x", 6: "H6x", 9: "Q"}


def ring(library: Library, kind: int, count: int, *, exact: bool = False, told: int | None = None) -> list[int | None]:
    """So many samples of a kind: the first 0, then 1 …; the rooms that were given, None for a question after the number."""
    rooms: list[int | None] = []

    def answer(gpu: int, of: int, since: int, kind_at: int, count_at: int, to: int) -> int:
        assert (of, since) == (1, 777)
        put(kind_at, "I", kind)
        (room,) = take(count_at, "I")
        rooms.append(room if to else None)
        if not to:
            return put(count_at, "I", count if told is None else told)
        if room < count or (exact and room != count):
            return INVALID_ARGUMENT if exact else INSUFFICIENT_SIZE
        for place in range(count):
            put(to + 16 * place, "Q" + FORMS[kind], (1 << 50) + place, place)
        return put(count_at, "I", count)

    library.define("nvmlDeviceGetSamples", answer)
    return rooms


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("count", [0, 1, 7, 256])
def test_samples_of_every_kind_of_number(library: Library, kind: int, count: int) -> None:
    """All of them, each with its time; a kind that nobody knows is read as the widest whole number."""
    rooms = ring(library, kind, count)
    code, stamps, values = Nvml().samples(GPU, 777)
    assert (code, rooms) == (SUCCESS, [256])
    assert (stamps, values) == ([(1 << 50) + place for place in range(count)], list(range(count)))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("count", [20, 257, 400])
def test_a_library_that_wants_another_room_is_asked_for_it(library: Library, exact: bool, count: int) -> None:
    """Then it gets exactly that; a room that became larger stays."""
    rooms = ring(library, 3, count, exact=exact)
    nvml = Nvml()
    for _ in range(2):
        code, stamps, values = nvml.samples(GPU, 777)
        assert (code, len(stamps), values) == (SUCCESS, count, list(range(count)))
    first: list[int | None] = [256] if not exact and count <= 256 else [256, None, count]
    assert rooms == first + ([count] if count > 256 else first)


def test_a_kind_that_nobody_knows_has_no_sign(library: Library) -> None:
    """The widest whole number that there is."""
    for kind, value in ((4, -1), (9, (1 << 64) - 1)):
        library.define("nvmlDeviceGetSamples", everything(kind))
        assert Nvml().samples(GPU, 777) == (SUCCESS, [(1 << 64) - 1], [value])


def everything(kind: int) -> Function:
    """One sample, of which every bit is set."""
    return lambda gpu, of, since, form, count, to: (
        put(form, "I", kind) or put(count, "I", 1) or put(to, "QQ", (1 << 64) - 1, (1 << 64) - 1)
    )


def test_a_ring_that_cannot_be_is_cut(library: Library) -> None:
    """No library makes us take gigabytes, and a number of samples beyond the room is none."""
    rooms = ring(library, 3, 100_000)
    assert Nvml().samples(GPU, 777) == (INSUFFICIENT_SIZE, [], [])
    assert rooms == [256, None, 65536]
    library.define("nvmlDeviceGetSamples", lambda gpu, of, since, kind, count, to: put(count, "I", 1 << 31))
    assert len(Nvml().samples(GPU, 777)[1]) == 256


@pytest.mark.parametrize("code", [NOT_FOUND, NOT_SUPPORTED, 15])
def test_a_ring_that_is_not_there_gives_nothing(library: Library, code: int) -> None:
    """Whatever lies in memory; the same where its number cannot be had."""
    library.define("nvmlDeviceGetSamples", lambda gpu, of, since, kind, count, to: put(count, "I", 3) or code)
    assert Nvml().samples(GPU, 777) == (code, [], [])
    library.define("nvmlDeviceGetSamples", lambda gpu, of, since, kind, count, to: INSUFFICIENT_SIZE if to else code)
    assert Nvml().samples(GPU, 777) == (code, [], [])


# ---- at rest ----------------------------------------------------------------------------------


class Rest:
    """What a GPU at rest answers; each part can be made another one."""

    def __init__(self, library: Library) -> None:
        self.kind, self.stamps, self.values = 3, [778, 790, 800], [0, 0, 0]
        self.ring = self.use = self.engine = 0  # codes
        self.percent = self.work = 0
        self.given: list[int] = []
        library.define("nvmlDeviceGetSamples", self.samples)
        library.define("nvmlDeviceGetUtilizationRates", lambda gpu, to: put(to, "II", self.percent, 7) or self.use)
        for name in ("Encoder", "Decoder", "Jpg"):
            library.define(f"nvmlDeviceGet{name}Utilization", lambda gpu, to, period: put(to, "I", 0))
        library.define("nvmlDeviceGetOfaUtilization", lambda gpu, to, period: put(to, "I", self.work) or self.engine)

    def samples(self, gpu: int, of: int, since: int, kind_at: int, count_at: int, to: int) -> int:
        assert (of, take(count_at, "I")) == (1, (256,))
        self.given.append(since)
        put(kind_at, "I", self.kind)
        for place, (stamp, value) in enumerate(zip(self.stamps, self.values, strict=True)):
            put(to + 16 * place, "Qq", stamp, value)
        return put(count_at, "I", len(self.stamps)) or self.ring

    def found(self, *, dry: bool = False, engines: tuple[int, ...] = (0, 3)) -> int | None:
        nvml = Nvml()
        return nvml.samples_at_rest(GPU, 777, nvml.engine_calls(engines), dry)


@pytest.fixture
def rest(library: Library) -> Rest:
    return Rest(library)


def test_rest_is_the_newest_sample(rest: Rest) -> None:
    """Where every sample is zero, and every engine that there is."""
    assert rest.found() == 800
    assert rest.given == [777]
    rest.work = 5
    assert rest.found(engines=(0, 1, 2)) == 800, "of others nobody asks"


@pytest.mark.parametrize(
    "change",
    [
        {"values": [0, 1, 0]}, {"values": [1, 0, 0]}, {"values": [0, 0, 1]}, {"stamps": [], "values": []},
        {"stamps": [777, 790, 800]}, {"stamps": [778, 790, 777]}, {"ring": NOT_SUPPORTED}, {"ring": UNKNOWN},
        {"ring": INSUFFICIENT_SIZE}, {"work": 1}, {"engine": NOT_SUPPORTED},
    ],
)  # fmt: skip
def test_whatever_is_otherwise_is_no_rest(rest: Rest, change: dict[str, object]) -> None:
    """Then each is asked by itself, and its code heeded."""
    for name, value in change.items():
        setattr(rest, name, value)
    assert rest.found() is None
    assert rest.found(dry=True) is None


@pytest.mark.parametrize(("kind", "least"), [(0, 8), (1, 4), (2, 8), (4, 8), (5, 4), (6, 2), (9, 8)])
def test_a_zero_is_as_wide_as_its_kind(rest: Rest, kind: int, least: int) -> None:
    """What lies beside a narrow number is of no account, and each of its own bits is."""
    for bit in range(0, 64, 8):
        rest.kind, rest.values = kind, [0, -(1 << 63) if bit == 56 else 1 << bit, 0]
        assert (rest.found() is None) is (bit < 8 * least)


@pytest.mark.parametrize(
    ("dry", "use", "percent", "rests"),
    [
        (False, SUCCESS, 0, True),
        (False, SUCCESS, 1, False),
        (False, UNKNOWN, 0, False),
        (True, UNKNOWN, 0, True),
        (True, SUCCESS, 9, True),
    ],
)
def test_a_ring_that_ran_dry_says_nothing_by_itself(rest: Rest, dry: bool, use: int, percent: int, rests: bool) -> None:
    """Something else has to say that nothing ran: whoever asks, or the use at this moment. No time is newer then."""
    rest.ring, rest.use, rest.percent = NOT_FOUND, use, percent
    assert rest.found(dry=dry) == (777 if rests else None)
