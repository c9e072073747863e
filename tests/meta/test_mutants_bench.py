"""What became of a mutant is true also on a busy machine, and where its time was short."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[1] / "mutants/bench.py"

RULE = """
def answer():
    return 42


def other():
    return 1
"""
UNNOTICED = RULE.replace("42", "43")

TESTS = {
    "test_hurried.py": """
from pathlib import Path
from costguard.rule import answer

def test_it_fails_the_second_time_it_runs():
    answer()
    runs = Path("runs")
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert runs.read_text() != "xx"
""",
    "test_near.py": """
from costguard.rule import answer

def test_cheap():
    assert answer() > 0

def test_dear():
    assert sum(range(5_000_000)) and answer() == 42
""",
    "test_apart.py": """
import subprocess, sys
import pytest

@pytest.fixture(scope="module")
def says():
    program = "from costguard.rule import answer; print(answer())"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).stdout

def test_a_process(says):
    assert says

def test_what_it_says(says):
    assert says == b"42\\n"
""",
    "test_other.py": """
from costguard.rule import other

def test_it_calls_another_function():
    other()
    with open("others", "a") as runs:
        runs.write("x")
""",
}


class Bench:
    """A bench on a small tree, given one order after the other."""

    def __init__(self, tree: Path, *files: str) -> None:
        self._rule = tree / "costguard/rule.py"
        self._rule.parent.mkdir()
        (self._rule.parent / "__init__.py").touch()
        self._rule.write_text(RULE)
        for file in files:
            (tree / file).write_text(TESTS[file])
        theirs, ours = os.pipe()
        answers, theirs_too = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, str(BENCH), str(theirs), str(theirs_too), str(tree / "measured"), "traced", *files],
            cwd=tree, env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}, pass_fds=(theirs, theirs_too),
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(theirs_too)
        self._orders, self._answers = os.fdopen(ours, "w", buffering=1), os.fdopen(answers)
        assert json.loads(self._answers.readline()) == {"unsound": []}

    def fate(self, text: str, **order: Any) -> tuple[str, str]:
        """What became of ``answer`` in another text, and the name of the test that noticed it."""
        self._rule.write_text(text)
        where = {"module": "costguard.rule", "function": "answer", "where": "costguard/rule.py:answer"}
        self._orders.write(
            json.dumps({**where, "text": text, "tests": "", "processes": True, "within": 100.0, **order})
        )
        self._orders.write("\n")
        found = json.loads(self._answers.readline())
        return found["fate"], found["test"].rpartition("::")[2]

    def close(self) -> None:
        self._orders.close()
        self._answers.close()
        self._process.wait()


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """One on the files that a test names."""
    made = Bench(tmp_path, *request.param)
    yield made
    made.close()


@pytest.mark.parametrize("bench", [["test_hurried.py"]], indirect=True)
def test_a_test_that_fails_once_notices_nothing(bench: Bench) -> None:
    """It may have been in a hurry: what it fails for is found when it runs again, too."""
    assert bench.fate(UNNOTICED) == ("passed", "")


@pytest.mark.parametrize("bench", [["test_near.py"]], indirect=True)
def test_what_had_no_time_is_no_survivor(bench: Bench) -> None:
    """The test that would have noticed it was not asked."""
    assert bench.fate(UNNOTICED, within=0.0) == ("cut", "")
    assert bench.fate(UNNOTICED) == ("failed", "test_dear")
    assert bench.fate(RULE.replace("42", "40 + 2"), within=100.0) == ("passed", "")


@pytest.mark.parametrize("bench", [["test_near.py"]], indirect=True)
def test_what_waits_for_nothing_is_ended(bench: Bench) -> None:
    """Without a word for so many seconds; a single long run of many tests is none."""
    assert (
        bench.fate(RULE.replace("42", "__import__('os').read(__import__('os').pipe()[0], 1)"), silent=1.0)[0] == "hung"
    )


@pytest.mark.parametrize("bench", [["test_other.py", "test_apart.py"]], indirect=True)
def test_a_process_is_asked_and_who_cannot_call_it_is_not(bench: Bench, tmp_path: Path) -> None:
    """What a process calls nobody sees, so that each test that starts one may notice; another one of which all is seen may not."""
    assert bench.fate(UNNOTICED) == ("failed", "test_what_it_says")
    assert bench.fate(RULE.replace("42", "40 + 2")) == ("passed", "")
    assert (tmp_path / "others").read_text() == "x"
