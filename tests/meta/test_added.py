"""What was added in one table only, and forgotten where CONTRIBUTING sends the author next, is named here."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType, UnionType
from typing import Any, get_args

import pytest

from costguard import cli, doctor
from costguard.agent import redelivery
from costguard.agent.loop import Loop
from costguard.agent.recorder import Recorder
from costguard.cli.main import VERBS
from costguard.engine import effects, events, machine, reasons
from costguard.engine.effects import Effect
from costguard.engine.events import Event
from costguard.engine.policy import Policy
from costguard.engine.reasons import OWN_REASONS, REASONS, Reason
from costguard.history import story
from costguard.notify import login
from costguard.notify.delivery import LOCAL_CHANNELS
from costguard.readers.nvml import library
from costguard.replay import outline, skip

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DRIVER = TESTS / "unit/readers/driver.py"
PAGES = "\n".join(
    page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if page.name != "json.md"  # for programs
)
CHANGES_NO_COUNTDOWN = {"accepted", "asking", "hold_ended", "next_action", "outcome_unknown", "reminder", "stopping"}
"""Messages of an incident before which another one has said that no countdown runs."""
BY_OTHERS = {"Temperature": "of `costguard stress`", "HandleByUUID": "finds a GPU"}
"""Calls of the driver that no signal rests on."""
SETS_UP = frozenset(("Lib", "Init_v2", "Count_v2", "HandleByIndex", "HandleByPciBusId", "Name", "PciInfo", "UUID"))
"""How the library finds the GPUs: the driver of the unit tests begins with their handles."""


def sources(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for file in sorted((TESTS / folder).rglob("*.py")):
            yield file, file.read_text(encoding="utf-8")


def options_of(reason: Reason) -> set[str]:
    """The fields of the policy that switch it on or off; none for one that always applies."""
    changes: list[dict[str, Any]] = [{name: value} for name in Policy._fields for value in (None, 1.0)]
    as_ever = reason.applies(Policy())
    return {name for change in changes for name in change if reason.applies(Policy()._replace(**change)) != as_ever}


def test_every_row_of_a_reason_is_among_the_reasons() -> None:
    """One without its place in the order of precedence would never be chosen."""
    rows = {name: value for name, value in vars(reasons).items() if isinstance(value, Reason)}
    missing = [name for name, row in rows.items() if row not in REASONS]
    assert not missing, f"give {missing} a place in OWN_REASONS of engine/reasons.py"


@pytest.mark.parametrize("reason", OWN_REASONS, ids=lambda reason: reason.name)
@pytest.mark.parametrize("file", ["simulation/surroundings.py", "unit/replay/made.py"])
def test_drawn_policies_have_every_reason(file: str, reason: Reason) -> None:
    """A reason that no simulated machine, or no replayed recording, can have is judged on none."""
    drawn = {
        word.arg
        for word in ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
        if isinstance(word, ast.keyword) and not isinstance(word.value, ast.Constant)
    }
    others = set().union(*(options_of(one) for one in OWN_REASONS if one is not reason))
    own = options_of(reason) - others  # an option of another reason, too, says nothing of this one
    assert not own or own & drawn, f"draw one of {sorted(own)} for some policies of tests/{file}"


@pytest.mark.parametrize("reason", OWN_REASONS, ids=lambda reason: reason.name)
def test_replay_is_quick_with_every_reason(reason: Reason) -> None:
    """One that replay cannot look ahead for is stepped through sample by sample: right, and slow."""
    assert reason in skip.KNOWN, (
        f"teach LookAhead of replay/skip.py when {reason.name} could hold, then add it to KNOWN"
    )
    drawn = reason in outline.DRAWN or reason.by_date
    assert drawn, f"teach replay/outline.py when {reason.name} holds, then add it to DRAWN"


@pytest.mark.parametrize(("kinds", "module"), [(Effect, effects), (Event, events)])
def test_every_effect_and_event_is_one(kinds: UnionType, module: ModuleType) -> None:
    """A class that is none of them is handled by nothing, and no check of types asks for that."""
    written = {one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__}
    lacking = {one.__name__ for one in written - set(get_args(kinds)) if hasattr(one, "_fields")}
    name = module.__name__.rpartition(".")[2]
    assert not lacking, f"give {sorted(lacking)} a place in the union at the end of engine/{name}.py"


HANDLERS = [(Effect, Loop._start), (Effect, Recorder._effect), (Event, machine._other)]


@pytest.mark.parametrize(("kinds", "handler"), HANDLERS)
def test_every_effect_is_carried_out_and_every_event_heeded(kinds: UnionType, handler: FunctionType) -> None:
    """What falls through never happens, or is missing in the history, and nothing says so."""
    tree = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(handler))))
    cases = {node.cls.id for node in tree if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name)}
    lacking = {kind.__name__ for kind in get_args(kinds)} - cases
    assert not lacking, f"add a case for {sorted(lacking)} to {handler.__qualname__}"


def test_the_history_says_what_each_recorded_effect_was() -> None:
    """A row that `costguard history` has no words for is shown by its bare name."""
    recorded: set[str] = set()
    for case in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(Recorder._effect)))):
        if isinstance(case, ast.match_case):
            text = ast.unparse(case)
            recorded |= set(re.findall(r"self\._add\(\w+, \w+, '(\w+)'", text))
            recorded |= {
                name.lower() for name in re.findall(r"(\w+)\(\)", ast.unparse(case.pattern)) if "__name__" in text
            }
    assert {"told", "prepare"} <= recorded
    told = {
        node.value for node in ast.walk(ast.parse(inspect.getsource(story._entry))) if isinstance(node, ast.Constant)
    }
    assert not recorded - told, f"say in _entry of history/story.py what {sorted(recorded - told)} means"


def test_the_login_message_knows_every_message_of_an_incident() -> None:
    """Else whoever logs in reads of a countdown that is over, or of none while one runs."""
    of_an_incident = redelivery.COUNTDOWN | redelivery.PROGRESS_KINDS | redelivery.FINAL_KINDS | {redelivery.FAILED}
    lacking = of_an_incident - login.COUNTDOWN - login.ENDS - CHANGES_NO_COUNTDOWN
    assert not lacking, f"say in notify/login.py whether a countdown runs after {sorted(lacking)}"


@pytest.mark.parametrize("channel", LOCAL_CHANNELS)
def test_every_channel_of_this_machine_is_tested(channel: str) -> None:
    """What it writes, and what it says of it, is tried by itself or by the worker that delivers."""
    module, _, name = LOCAL_CHANNELS[channel].rpartition(".")
    imports = re.compile(rf"from {re.escape(module)} import .*\b{name}\b|{re.escape(module)}\.{name}\b")
    assert any(imports.search(text) for _, text in sources("unit", "faults")), (
        f"test {module}.{name} in tests/faults or tests/unit"
    )


def typed(text: str) -> set[str]:
    """The verbs that a test types: the first word of a call or of a list of words, or a word after ``costguard``.

    Any other string could be an English word that a verb has the name of.
    """
    tree = list(ast.walk(ast.parse(text)))
    words = [
        node.elts if isinstance(node, ast.List | ast.Tuple) else node.args
        for node in tree
        if isinstance(node, ast.List | ast.Tuple | ast.Call)
    ]
    first = [next((word for word in given if not isinstance(word, ast.Starred)), None) for given in words]
    strings = [str(node.value) for node in tree if isinstance(node, ast.Constant)]
    return {str(word.value).partition(" ")[0] for word in first if isinstance(word, ast.Constant)} | {
        verb for string in strings for verb in re.findall(r"^(?:sudo )?costguard (\S+)", string)
    }


def test_every_verb_is_tested_and_on_a_page() -> None:
    """A verb that no test types, or that no page shows, is one that nobody knows of."""
    used = set().union(*(typed(text) for _, text in sources("unit/cli", "e2e")))
    untested = VERBS.keys() - used
    assert not untested, f"type {sorted(untested)} in a test of tests/e2e or tests/unit/cli"
    unknown = {verb for verb in VERBS if not re.search(rf"costguard {verb}\b", PAGES)}
    assert not unknown, f"show {sorted(unknown)} in docs/ or the README"


def test_every_call_of_the_driver_is_tested() -> None:
    """Whatever reads a GPU is answered by the drivers of the tests, with a value and with a failure."""
    source = Path(library.__file__).read_text(encoding="utf-8")
    calls = set(re.findall(r"\bnvml(?:DeviceGet)?((?!DeviceGet)[A-Z]\w+)", source)) - SETS_UP
    gone = BY_OTHERS.keys() - calls
    assert not gone, f"readers/nvml/library.py makes no call {sorted(gone)}: take it out of BY_OTHERS"
    unanswered = {call for call in calls - BY_OTHERS.keys() if call not in DRIVER.read_text(encoding="utf-8")}
    assert not unanswered, f"answer {sorted(unanswered)} in tests/unit/readers/driver.py"
    tested = "\n".join(text for file, text in sources("unit/readers", "faults") if file != DRIVER)
    untried = {call for call in calls - BY_OTHERS.keys() if call not in tested}
    assert not untried, f"try {sorted(untried)} in a test of tests/faults or tests/unit/readers"


def test_every_command_is_a_verb() -> None:
    """What is written as one, and has no line in the table, cannot be typed."""
    targets = {verb.target for verb in VERBS.values()}
    made = {
        f"costguard.cli.{file.stem}:{node.name}"
        for file in Path(cli.__path__[0]).glob("*.py")
        if file.stem != "main"
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(one).startswith(("click.command", "click.group")) for one in node.decorator_list)
    }
    assert len(made) > 15
    assert not made - targets, f"add a line for {sorted(made - targets)} to VERBS of cli/main.py"


def said(node: ast.expr, names: dict[str, list[ast.expr]]) -> Iterator[str]:
    """The constant pieces of a text, also of one that was given a name before."""
    for found in names.get(node.id, []) if isinstance(node, ast.Name) else [node]:
        for piece in ast.walk(found):
            if isinstance(piece, ast.Constant) and isinstance(piece.value, str):
                yield piece.value


def findings(function: ast.FunctionDef) -> Iterator[list[str]]:
    """The pieces of what a function of `costguard doctor` finds wrong."""
    names: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"warn", "bad"}:
            yield [piece for piece in said(node.args[0], names) if len(piece.split()) >= RUN]


RUN = 3
"""So many words in a row, and a test quotes a text."""


def test_every_finding_of_doctor_is_tested() -> None:
    """One that no test quotes may never come, or always."""
    quoted = " ".join(
        node.value
        for _, text in sources("unit/doctor", "e2e", "unit/cli")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    untested = [
        f"{file.name}: {pieces[0]}"
        for file in sorted(Path(doctor.__path__[0]).glob("*.py"))
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for pieces in findings(function)
        if pieces and not any(run in quoted for piece in pieces for run in runs(piece.split()))
    ]
    assert not untested, f"quote {untested} in a test of tests/unit/doctor"


def runs(words: list[str]) -> list[str]:
    return [" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1)]
