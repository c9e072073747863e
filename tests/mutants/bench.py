"""A warm pytest: the tests are collected once, and each mutant is tried in a fork of that process.

``python tests/mutants/bench.py IN OUT FILE HOW TEST ...`` in a copy of the tree takes one mutant per line (JSON) from the
descriptor IN and writes what became of it to OUT. A function that changed gets its new code in the fork; the file on disk is
changed by whoever asks, for processes that the tests start. FILE keeps what a run on the unbroken code measured; HOW is
*traced* where that tells which test calls which function, and *plain* where each mutant names its tests.
"""

import inspect
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

PASSED, FAILED, HUNG, UNFIT, CUT = "passed", "failed", "hung", "unfit", "cut"
"""What became of a mutant; *unfit*: not to be had without importing everything again; *cut*: its time was over before all tests that
may call it had run, so that nobody knows."""

_UNFIT, _CUT = 77, 78  # exit codes
TEST_SECONDS = 8.0
"""CPU seconds above five times its usual ones that one test may take: else the mutant hangs it."""

MOST_MEMORY = 6 << 30
SILENT_SECONDS = 600.0
"""Without a word of a test, on a machine that may be busy: whatever waits for nothing is ended long before, by pytest's own limit."""

STARTING = frozenset(("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"))
"""What Python says (`sys.addaudithook`) of a process that begins."""


class Tracer:
    """Notes which functions below a folder are called, each as *file:function*."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._cut = len(folder) - len("costguard/")
        self._seen: set[CodeType] = set()
        self.called: set[str] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """For `sys.settrace`: no line within a function is traced."""
        del event, argument
        self._seen.add(frame.f_code)

    def __enter__(self) -> None:
        self._seen.clear()
        threading.settrace(self)
        sys.settrace(self)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)
        ours = [code for code in self._seen if code.co_filename.startswith(self._folder)]
        self.called = {f"{code.co_filename[self._cut :]}:{code.co_qualname.partition('.<')[0]}" for code in ours}


class Bench:
    """The plug-in that tries mutants instead of running the tests."""

    def __init__(self, orders: int, answers: int, measured: Path, *, traced: bool) -> None:
        self._measured, self._traced = measured, traced
        self._orders = os.fdopen(orders)
        self._answers = os.fdopen(answers, "w", buffering=1)
        self._seconds: dict[str, float] = {}  # of each test that ran
        self._kills: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._sound: dict[str, bool] = {}  # whether a test passes on the unbroken code
        self._reach: defaultdict[str, set[str]] = defaultdict(set)  # the tests that call a function
        self._starting: set[str] = (
            set()
        )  # tests that start processes, or have one that others started: nobody sees what it calls

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try what is asked for until the end of the input."""
        self._measure(session)
        self._answers.write(json.dumps({"unsound": self._unsound()}) + "\n")
        for line in self._orders:
            order = json.loads(line)
            found = self._try(session, order, self._sorted(session.items, order))
            self._answers.write(json.dumps(found) + "\n")
        return True

    def _measure(self, session: pytest.Session) -> None:
        """What passes on the unbroken code, how long it takes, and which functions it calls."""
        rows = json.loads(self._measured.read_text()) if self._measured.exists() else {}
        lacking = [item for item in session.items if item.nodeid not in rows]
        if lacking:
            rows |= _in_a_child(lambda: _measured(session, lacking, traced=self._traced))
            self._measured.write_text(json.dumps(rows))
        for item in session.items:
            test = item.nodeid
            self._seconds[test], self._sound[test], called, starts = rows.get(test, (0.0, False, (), True))
            for where in called:
                self._reach[where].add(test)
            if starts:
                self._starting.add(test)
        lent = {fixture for item in session.items if item.nodeid in self._starting for fixture in _shared(item)}
        self._starting.update(item.nodeid for item in session.items if not lent.isdisjoint(_shared(item)))

    def _sorted(self, items: Sequence[pytest.Item], order: dict[str, Any]) -> list[pytest.Item]:
        """Those that noticed something in the same function first, then the cheapest of those that call it."""
        near, far = self._kills[order["where"]], self._kills[order["where"].partition(":")[0]]
        reach = self._reach.get(order["where"], set())
        wanted = [item for item in items if self._sound[item.nodeid]]
        if order["tests"]:
            return [item for item in wanted if item.nodeid.startswith(order["tests"])]
        starting = self._starting if order["processes"] else set()
        concerned = [item for item in wanted if item.nodeid in reach or item.nodeid in starting]
        wanted = concerned or wanted

        def cost(item: pytest.Item) -> tuple[float, ...]:
            name = item.nodeid
            return (-near[name], name not in reach, self._seconds[name] / (1.0 + far[name]))

        return sorted(wanted, key=cost)

    def _unsound(self) -> list[str]:
        return [test for test, sound in self._sound.items() if not sound]

    def _try(self, session: pytest.Session, order: dict[str, Any], items: list[pytest.Item]) -> dict[str, Any]:
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.close(out)
            os._exit(self._run(order, items, into, session))
        os.close(into)
        told, test = "", ""
        with os.fdopen(out) as lines:
            for line in _lines(lines, child, order.get("silent", SILENT_SECONDS)):
                told, seconds, test = line.rstrip("\n").split(" ", 2)
                if told == "end":
                    self._seconds[test] = float(seconds)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        fate = {0: PASSED, 1: FAILED, _UNFIT: UNFIT, _CUT: CUT}.get(code, HUNG)
        if fate in {FAILED, HUNG} and test and order["where"]:
            self._kills[order["where"]][test] += 1
            self._kills[order["where"].partition(":")[0]][test] += 1
        return {"fate": fate, "test": test if fate in {FAILED, HUNG} else ""}

    def _run(self, order: dict[str, Any], items: list[pytest.Item], into: int, session: pytest.Session) -> int:
        """In the fork: change the function, run the tests up to the first that fails, give the exit code."""
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        if order.get("text") and not graft(order["module"], order["text"], order["function"]):
            return _UNFIT
        tell, start = partial(os.write, into), time.process_time()
        for item, after in zip(items, [*items[1:], None], strict=True):
            limit = TEST_SECONDS + 5.0 * self._seconds.get(item.nodeid, 1.0)
            tell(f"begin 0 {item.nodeid}\n".encode())
            began = time.process_time()
            # noticed is what fails twice: a busy machine fails a test as well
            if not _passes(session, item, after, limit) and not _passes(session, _anew(item), after, limit):
                return 1
            tell(f"end {time.process_time() - began:.3f} {item.nodeid}\n".encode())
            if after is not None and time.process_time() - start > order["within"]:
                return _CUT
        return 0


def _measured(
    session: pytest.Session, items: Sequence[pytest.Item], *, traced: bool
) -> dict[str, tuple[float, bool, list[str], bool]]:
    """Run tests, each with its CPU seconds, whether it passed, what it called, and whether it started processes."""
    rows, tracer, begun = {}, Tracer(os.getcwd() + "/costguard/"), list[str]()
    sys.addaudithook(lambda event, _: begun.append(event) if event in STARTING else None)
    for item, after in zip(items, [*items[1:], None], strict=True):
        began = time.process_time()
        begun.clear()
        with tracer if traced else nullcontext():
            # as before every merge: what fails once on a busy machine runs once more
            sound = _passes(session, item, after) or _passes(session, _anew(item), after)
        rows[item.nodeid] = (time.process_time() - began, sound, sorted(tracer.called), bool(begun))
    return rows


def _shared(item: pytest.Item) -> set[object]:
    """Fixtures that it has together with other tests: what they start begins with whichever of these is the first."""
    known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    used = {fixtures[-1] for fixtures in known.values() if fixtures[-1].scope != "function"}
    return {fixture for fixture in used if not fixture.func.__module__.startswith("_pytest.")}


def _passes(session: pytest.Session, item: pytest.Item, after: pytest.Item | None, limit: float = 0.0) -> bool:
    """Run a test. One that takes more than ``limit`` CPU seconds ends this process; without, it has no limit."""
    failed = session.testsfailed
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
    return session.testsfailed == failed


def _anew(item: pytest.Item) -> pytest.Item:
    if isinstance(item, pytest.Function):
        item._initrequest()  # forgets the fixtures of the run before; pytest has no public way
    return item


def _in_a_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``work`` gives, without a trace of it in this process."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        with os.fdopen(into, "w") as lines:
            lines.write(json.dumps(work()))
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as lines:
        found: dict[str, Any] = json.loads(lines.read() or "{}")
    os.waitpid(child, 0)
    return found


def _lines(lines: Any, child: int, silent: float) -> Iterator[str]:
    """What a child tells; one that says nothing for so many seconds is killed with all that it started."""

    def over(*_: object) -> None:
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, silent)
    try:
        for line in lines:
            yield line
            signal.setitimer(signal.ITIMER_REAL, silent)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def graft(module: str, text: str, name: str) -> bool:
    """Give a function of a loaded module its code in another text of that module. False where that cannot be."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return True  # only processes of their own import it: they find it on the disk
    found: object = loaded
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None)
    code = next((one for one in _codes(compile(text, loaded.__file__ or "", "exec")) if one.co_qualname == name), None)
    for step in ("fget", "__func__"):  # a property, a class or static method
        found = getattr(found, step, found) if isinstance(found, property | classmethod | staticmethod) else found
    found = inspect.unwrap(found) if callable(found) else found
    if not isinstance(found, FunctionType) or code is None or len(code.co_freevars) != len(found.__code__.co_freevars):
        return False
    found.__code__ = code
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


OPTIONS = (
    *("-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-o", "addopts=--import-mode=importlib", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


def main(arguments: list[str]) -> int:
    """Collect the tests, then try mutants."""
    orders, answers, measured, how, *tests = arguments
    bench = Bench(int(orders), int(answers), Path(measured), traced=how == "traced")
    return int(pytest.main([*OPTIONS, *tests], plugins=[bench]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
