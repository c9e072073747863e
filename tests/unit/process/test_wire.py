"""What goes through the pipes between costguard's processes: typed values, the same at both ends."""

import importlib
import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.actions.base import Context
from costguard.actions.job import ActionAnswer, BeatJob, Release
from costguard.agent.cloud_side import CloudMemory
from costguard.agent.memory import SavedEngine, SavedParts
from costguard.agent.persist import PersistJob
from costguard.cloud.access import CloudAccess, HostPaths
from costguard.config.job import Configured, ConfigureJob
from costguard.engine.saved import Commitments
from costguard.fill.jobs import FillJob, FillWatchJob, StartedRun, View
from costguard.history.job import Batch, EventRow, GpuMinute, MachineMinute
from costguard.host.control import Reply
from costguard.notify.job import DeliveryResult, Draft, Judged, JudgeJob, Overtaking, RecallJob, TellJob
from costguard.notify.tested import LastTest
from costguard.plans import Plan, PlanFinding, Result
from costguard.process.command_lines import HEAVY, LIGHT
from costguard.process.wire import MalformedError, build, from_line, to_line
from costguard.process.worker import Done
from costguard.readers.cloud.job import CloudAnswer, CloudJob
from costguard.readers.host.errand_jobs import ProbeEnd, ProbeJob, RuntimeFound, RuntimeJob
from costguard.readers.host.job import HostAnswer, HostJob
from costguard.readers.host.sense import Activity, Sight
from costguard.readers.nvml.job import NvmlJob
from costguard.readers.question import Question
from costguard.report.job import DrawJob, Drawn
from costguard.tree.jobs import Launched, LaunchJob, WatcherReport, WatchJob
from costguard.workloads.load import LoadAnswer, LoadJob

KINDS: dict[str, tuple[Any, ...]] = {
    "act": (Context, ActionAnswer, Release),
    "addresses": (JudgeJob, Judged),
    "beat": (BeatJob, Done),
    "cloud": (CloudJob, Question, CloudAnswer),
    "configure": (ConfigureJob, Configured),
    "history": (Batch, Done),
    "host": (HostJob, Question, HostAnswer),
    "notebook": (RuntimeJob, RuntimeFound),
    "notify": (TellJob, DeliveryResult, Overtaking),
    "persist": (PersistJob, Done),
    "picture": (DrawJob, Drawn),
    "probe": (ProbeJob, ProbeEnd),
    "recall": (RecallJob, DeliveryResult),
    "exec": (LaunchJob,),
    "watch": (WatchJob, Launched, WatcherReport),
    "fill": (FillJob,),
    "look": (FillWatchJob, StartedRun, View),
}
"""What each program is told, and says. The reader of GPUs answers in lines of its own (`costguard.agent.decode`)."""

BESIDE = (LoadJob, LoadAnswer, Commitments, SavedEngine, SavedParts, CloudMemory, LastTest, Reply)
"""What goes to and fro with a program that is none of costguard's own, and what stands in files for who comes later."""

OWN = {"guard": "its configuration", "nvml": NvmlJob, "clock": "no job at all"}

TEXT = st.text(max_size=8)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
SECTION = st.dictionaries(TEXT, st.none() | st.booleans() | NUMBER | TEXT | st.lists(TEXT, max_size=2), max_size=3)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a named tuple."""
    fields = {}
    for name, wanted in kind.__annotations__.items():
        fields[name] = SECTION if "Mapping[str, object]" in str(wanted) and "None" not in str(wanted) else part(wanted)
    return st.builds(kind, **fields)


def part(wanted: Any) -> st.SearchStrategy[Any]:
    """Any value of a field."""
    if hasattr(wanted, "_fields"):
        return values(wanted)
    arguments: tuple[Any, ...] = getattr(wanted, "__args__", ())
    if isinstance(wanted, UnionType):
        return st.one_of(*map(part, arguments))
    if getattr(wanted, "__origin__", None) is tuple and arguments[-1] is Ellipsis:
        return st.lists(part(arguments[0]), max_size=2).map(tuple)
    if getattr(wanted, "__origin__", None) is tuple:
        return st.tuples(*map(part, arguments))
    if getattr(wanted, "__origin__", None) is Mapping and hasattr(arguments[1], "_fields"):
        return st.dictionaries(TEXT, part(arguments[1]), max_size=2)
    if "Mapping[str, str]" in str(wanted):
        return st.dictionaries(TEXT, TEXT, max_size=2)
    if "Mapping[str, float]" in str(wanted) or "Mapping[str, int]" in str(wanted):
        return st.dictionaries(TEXT, NUMBER if "float" in str(wanted) else st.integers(0, 99), max_size=2)
    if "Mapping" in str(wanted):
        return SECTION
    if wanted is object:
        return st.none() | NUMBER | TEXT | SECTION
    return NUMBER if wanted is float else st.from_type(wanted)


def test_every_program_has_a_typed_job() -> None:
    """A new one is named here, or has a reason to be none."""
    programs = LIGHT.keys() | HEAVY.keys()
    untyped = programs - KINDS.keys() - OWN.keys()
    assert not untyped, f"name the job and answer of {sorted(untyped)} in KINDS, or in OWN why there is none"
    gone = (KINDS.keys() | OWN.keys()) - programs
    assert not gone, f"no line in process/command_lines.py starts {sorted(gone)}"


@pytest.mark.parametrize(
    "kind", dict.fromkeys(kind for kinds in (*KINDS.values(), BESIDE) for kind in kinds), ids=lambda kind: kind.__name__
)
@given(data=st.data())
def test_what_one_end_writes_the_other_reads(kind: Any, data: st.DataObject) -> None:
    """Whatever it is."""
    value = data.draw(values(kind))
    assert from_line(kind, to_line(value)) == value


def test_an_nvml_job_is_read_as_it_was_written() -> None:
    """Its end in the reader has no types to lean on; what makes no sense there is as if nothing had been left."""
    job = NvmlJob(
        sysfs="/a",
        devfs="/b",
        counters={"g": [1.0, 2]},
        learnt={"g": {"bare": 1}},
        known=("g", "h"),
        holders=True,
        sensors=True,
        background_is_idle=True,
    )
    again = NvmlJob.of(json.loads(to_line(job)))
    assert [getattr(again, name) for name in job._fields] == [getattr(job, name) for name in job._fields]
    bare = NvmlJob.of({"known": 7, "sysfs": None})
    assert (bare.sysfs, bare.devfs, bare.known, bare.counters, bare.holders) == ("/sys", "/dev", (), None, False)


class Inner(NamedTuple):
    """A part of a value."""

    number: float
    kind: Literal["a", "b"] = "a"


class Value(NamedTuple):
    """Every form that a field may have."""

    word: str
    yes: bool = True
    number_of: int = 1
    number: float = 1.5
    inner: Inner = Inner(1.0)
    rows: tuple[Inner, ...] = ()
    pair: tuple[str, float] = ("x", 1.0)
    names: Mapping[str, str] = {}
    anything: object = None
    maybe: float | None = 2.0
    by_name: Mapping[str, Inner] | int = 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "it is not JSON"), (b"nonsense", "it is not JSON"), (b"[" * 100_000, "it is not JSON"), (b"\xff", "it is not JSON"),
        (b"[]", "it is not an object"), (b"null", "it is not an object"), (b'"secret"', "it is not an object"),
        (b"{}", "word is missing"), (b'{"word":7}', "word is not of type str"), (b'{"word":null}', "word is not of type str"),
        (b'{"word":"w","yes":1}', "yes is not of type bool"), (b'{"word":"w","yes":"true"}', "yes is not of type bool"),
        (b'{"word":"w","number_of":true}', "number_of is not of type int"), (b'{"word":"w","number_of":1.0}', "number_of is not of type int"),
        (b'{"word":"w","number":"1"}', "number is not a number"), (b'{"word":"w","number":true}', "number is not a number"),
        (b'{"word":"w","number":%s}' % (b"9" * 401), "number is not a number"),
        (b'{"word":"w","number":NaN}', "number is not a number"), (b'{"word":"w","number":-Infinity}', "number is not a number"),
        (b'{"word":"w","inner":{}}', "inner.number is missing"), (b'{"word":"w","inner":[]}', "inner.number is missing"),
        (b'{"word":"w","inner":7}', "inner is not an object"),
        (b'{"word":"w","inner":{"number":1,"kind":"secret"}}', "inner.kind is not one of a, b"),
        (b'{"word":"w","rows":{}}', "rows is not a list"), (b'{"word":"w","rows":[{"number":1},{}]}', "rows[1].number is missing"),
        (b'{"word":"w","pair":["x"]}', "pair has 1 entries, not 2"), (b'{"word":"w","pair":["x","y"]}', "pair[1] is not a number"),
        (b'{"word":"w","names":[]}', "names is not an object"), (b'{"word":"w","names":{"a":1}}', "names.a is not of type str"),
        (b'{"word":"w","maybe":"secret"}', "maybe is not a number"),
        (b'{"word":"w","by_name":true}', "by_name is not an object"), (b'{"word":"w","by_name":{"a":[]}}', "by_name.a.number is missing"),
        (b'{"word":"w","by_name":{"a":["secret"]}}', "by_name.a.number is not a number"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_place(line: bytes, words: str) -> None:
    """And never quoted: it may be a secret."""
    with pytest.raises(MalformedError) as caught:
        from_line(Value, line)
    assert str(caught.value) == words


def test_two_versions_understand_each_other() -> None:
    """The package may be replaced under a running guard: what is new is passed over, what is missing is as usual."""
    assert from_line(Value, b'{"word":"w","of tomorrow":{"x":[1]}}') == Value("w")
    assert from_line(Value, b'{"word":"w","number":2,"anything":[1],"maybe":null}') == Value(
        "w", number=2.0, anything=[1], maybe=None
    )


def test_a_line_is_short_and_keeps_what_is_not_as_usual() -> None:
    """What is empty by default is left out; what was emptied is not."""
    assert to_line(Value("w", yes=False, number_of=0, maybe=None)) == (
        b'{"word":"w","yes":false,"number_of":0,"number":1.5,"inner":{"number":1.0,"kind":"a"},"pair":["x",1.0],"maybe":null}'
    )
    assert to_line(ActionAnswer(ready=True)) == b'{"ready":true}'
    assert to_line(Release(True)) == b'{"go":true}'
    assert to_line(Question(1)) == b'{"read":1}'
    with pytest.raises(TypeError):
        to_line(Value("w", anything=object()))


def test_a_plan_comes_whole() -> None:
    """With what is not known, and what it says of each finding."""
    plan = Plan("stop", "another", (PlanFinding("c", "t", "h"),), None, False, (), {"a": "b"}, {"amount": 2.0})
    answer = ActionAnswer(plan, outcome=Result("done", "d", "p", {"x": "y"}))
    assert build(ActionAnswer, json.loads(to_line(answer))) == answer


def test_every_worker_refuses_a_senseless_job_in_words() -> None:
    """Each by the one main that they share: a test of one is a test of all."""
    for name, module in (LIGHT | HEAVY).items():
        if name in KINDS and name not in {
            "cloud",
            "host",
            "exec",
            "watch",
            "fill",
            "look",
        }:  # those stay as long as what they are for
            assert importlib.import_module(module).serve is importlib.import_module("costguard.process.worker").serve


def test_a_row_of_history_is_what_was_counted() -> None:
    """Minutes and events arrive as they were made."""
    batch = Batch(
        "/p", "b", "i", 1.5, False, (GpuMinute(60, "g", 1.0, 0.0, None, None, None),), (MachineMinute(60, 1.0, 0.0, 2.0),),
        (EventRow("i", 2.0, "told", "{}"),),
    )  # fmt: skip
    assert from_line(Batch, to_line(batch)) == batch


def test_places_of_a_machine_come_with_its_job() -> None:
    """As the configuration has them, and nothing else of its section."""
    host = {"procfs": "/p", "stands_for_host": True, "more": 1}
    place = CloudAccess.of({"providers": ["x=y"], "cloud": {"provider": "auto"}, "host": host})
    assert place == CloudAccess(("x=y",), {"provider": "auto"}, HostPaths(procfs="/p", stands_for_host=True))
    assert from_line(CloudJob, to_line(CloudJob(place, 2.5))) == CloudJob(place, 2.5)


def test_a_draft_takes_its_facts_along() -> None:
    """Whatever JSON they are."""
    job = TellJob(Draft("m", "warning", facts={"gpus": ["a"], "n": None}), ("wall",))
    assert from_line(TellJob, to_line(job)) == job


def test_what_senses_see_is_a_row_for_each() -> None:
    """As the reader of every version writes it, and in a mapping alone; of a later version's fields the first ones count."""
    seen = {"ssh": Sight((Activity("ann", "typed", 1.0, 2.0, "rest", "ann"),), "", "one session")}
    line = b'{"read":7,"senses":{"ssh":[[["ann","typed",1.0,2.0,"rest","ann"]],"","one session"]}}'
    assert to_line(HostAnswer(7, seen)) == line
    assert from_line(HostAnswer, line) == HostAnswer(7, seen)
    assert from_line(HostAnswer, line.replace(b'"one session"', b'"one session",["of tomorrow"]')) == HostAnswer(
        7, seen
    )
    assert from_line(HostAnswer, b'{"read":8,"senses":7}') == HostAnswer(8, 7)
    with pytest.raises(MalformedError):
        from_line(HostAnswer, b"[8,7]")
