"""Processes that stay take a few names in the place of `typing`, and those mean what they mean there."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import costguard
from costguard.process import lean_typing
from costguard.process.command_lines import HEAVY, LIGHT

FOLDER = str(Path(costguard.__file__).parents[1])

SAMPLE = '''
from collections.abc import Mapping
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeGuard, TypeVar, cast, get_args, get_origin

T = TypeVar("T", bound=int)

class Point(NamedTuple):
    """A place."""
    x: int
    y: float = 2.0
    kind: Literal["a", "b"] | None = None
    more: Mapping[str, Any] = {}
    @property
    def sum(self) -> float:
        return self.x + self.y
    def moved(self, by: T | None, of: None | T) -> Self:
        return self._replace(x=self.x + (by or 0))
    @classmethod
    def at(cls) -> "Point":
        return cls(7)

class Pair(NamedTuple, Generic[T]):
    one: T
    both: tuple[T, ...]

class Box(Generic[T]):
    def get(self) -> T: ...

class Port(Protocol[T]):
    def sure(self, value: object) -> TypeGuard[dict[str, Any]]: ...

def found():
    one = Point(1)
    return [
        repr(one), one == (1, 2.0, None, {}), one.sum, one.moved(3, 1), Point.at(), Point.__doc__, Point.__name__, Point.__qualname__,
        Point.__module__, Point._fields, Point._field_defaults, one._asdict(), Point._make([1, 2, "b", {}]), isinstance(one, tuple),
        Point.__annotations__["x"] is int, get_args(Point.__annotations__["kind"])[1] is type(None),
        get_args(get_args(Point.__annotations__["kind"])[0]), get_origin(get_args(Point.__annotations__["kind"])[0]) is Literal,
        get_origin(Point.__annotations__["more"]) is Mapping, get_args(tuple[int, ...]) == (int, ...), get_origin(int), get_args(int),
        repr(Pair(1, (2,))), Pair(1, (2,)).both, isinstance(Pair(1, ()), Generic), repr(Pair[int](1, ())), type(Box[int]()) is Box, cast(int, "x"), T.__name__,
        Point.__match_args__, len({one, Point(1)}) if not one.more else 0,
    ]
'''  # fmt: skip


def _output(source: str, *, lean: bool) -> str:
    install = "from costguard.process import lean_typing; lean_typing.install();" if lean else ""
    program = f"import sys; sys.path[:0] = sys.argv[1:]; {install}\n{source}"
    argv = [sys.executable, "-I", "-S", "-c", program, FOLDER, *(path for path in sys.path if path)]
    return subprocess.run(argv, capture_output=True, check=True, timeout=30, text=True).stdout


def _run(source: str, *, lean: bool) -> Any:
    return json.loads(_output(f"import json\n{source}", lean=lean))


def test_a_named_tuple_is_the_same(tmp_path: Path) -> None:
    """Its fields, defaults, methods, words and parameters."""
    (tmp_path / "sample.py").write_text(SAMPLE.replace(", len({one, Point(1)}) if not one.more else 0", ""))
    source = f"sys.path.insert(0, {str(tmp_path)!r}); import sample; print(json.dumps(sample.found(), default=str))"
    assert _run(source, lean=True) == _run(source, lean=False)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there the real module is used")
@pytest.mark.parametrize("asked", ["import typing; found = typing.TypedDict", "from typing import TypedDict as found"])
def test_what_is_not_there_comes_from_the_real_module(asked: str) -> None:
    """A plug-in of somebody else may use any name; from then on the real module is in its place."""
    source = f"{asked}\nimport typing\nprint(json.dumps([found.__module__, typing.__file__ == sys.modules['abc'].__file__, typing.get_type_hints.__module__]))"
    assert _run(source, lean=True) == _run(source, lean=False) == ["typing", False, "typing"]


def test_all_names_of_the_real_module_can_be_had_at_once() -> None:
    """As old code has it."""
    source = "from typing import *\nprint(json.dumps(Optional[int].__module__))"
    assert _run(source, lean=True) == "typing"


def test_whoever_has_the_real_module_keeps_it() -> None:
    """In this process, and in one in which the start-up of an installed package has loaded it."""
    lean_typing.install()
    assert sys.modules["typing"] is not lean_typing


LEAN = "costguard.process.lean_typing"
SENSES_ON = ("terminals", "ssh", "jupyter", "serving", "traffic", "cluster")
"""Those that are on by default."""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there the real module is used")
@pytest.mark.parametrize(
    ("modules", "never"),
    [
        ([LIGHT["guard"], "costguard.agent.loop"], set[str]()),
        ([LIGHT["nvml"]], {"json", "re", "enum", "string", "contextlib"}),
        (
            [LIGHT["host"], *(f"costguard.readers.host.{name}" for name in SENSES_ON)],
            {"json", "re", "enum", "contextlib", "socket", "signal"},
        ),
        ([HEAVY["cloud"]], {"json", "contextlib"}),
    ],
)
def test_what_stays_is_lean(modules: Sequence[str], never: set[str]) -> None:
    """Each of these modules, and the real `typing`, costs a process that stays up to 0.7 MB for good."""
    source = f"import {', '.join(modules)}\nprint(sys.modules['typing'].__name__, *sys.modules)"
    kind, *loaded = _output(source, lean=True).split()
    assert kind == LEAN
    assert never.isdisjoint(loaded)
