"""A child with a deadline: what its owner hears, and when it is ended."""

import json
from typing import NamedTuple

import pytest

from costguard.agent.task import NEVER, ChildTask, TaskError
from costguard.host.ports import Ended, Line, SpawnFailed
from costguard.process.worker import Done


class Job(NamedTuple):
    """What is to be done."""

    what: str


class Port:
    """Processes of which only what is asked of them is known."""

    def __init__(self) -> None:
        self.spawned: list[tuple[str, bytes]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.killed: list[int] = []
        self.full = False
        self.stuck = 0

    def spawn(self, program: str, job: bytes) -> int:
        if self.full:
            raise SpawnFailed("no room")
        self.spawned.append((program, job))
        return len(self.spawned)

    def send(self, child: int, line: bytes) -> bool:
        self.sent.append((child, line))
        return True

    def kill(self, child: int) -> None:
        self.killed.append(child)

    def unreaped(self, program: str) -> int:
        assert program == "beat"
        return self.stuck


def task(*, started: bool = True) -> tuple[Port, ChildTask[Done]]:
    port = Port()
    made = ChildTask(port, "beat", Done)  # type: ignore[arg-type] # of a host it uses these four
    if started:
        made.start(Job("x"), 30.0)
    return port, made


def test_it_is_started_with_its_job_and_known_until_its_end() -> None:
    """One process at a time, with a deadline."""
    port, one = task(started=False)
    assert (one.running, one.deadline, one.owns(1), one.late(1e9), one.send(b"x")) == (
        False,
        NEVER,
        False,
        False,
        False,
    )
    one.start(Job("x"), 30.0)
    assert port.spawned == [("beat", b'{"what":"x"}')]
    assert (one.running, one.deadline, one.owns(1), one.owns(2)) == (True, 30.0, True, False)
    assert one.send(b'{"go":true}')
    assert port.sent == [(1, b'{"go":true}')]
    assert one.answer(Line(1, b'{"error":"","notes":["n"]}')) == Done("", ("n",))
    assert one.answer(Ended(1, 0)) is None
    assert (one.running, one.deadline, port.killed) == (False, NEVER, [])


@pytest.mark.parametrize("line", [b"Segmentation fault", b"[]", b"{}", b'{"error":7}', b'{"notes":[]}'])
def test_nonsense_is_no_answer_and_ends_nothing(line: bytes) -> None:
    """Whoever started it decides: a process that acts is not killed for what it writes."""
    port, one = task()
    with pytest.raises(TaskError, match="it sent a malformed answer"):
        one.answer(Line(1, line))
    assert (one.running, port.killed) == (True, [])
    with pytest.raises(TaskError, match=r"it exited without an answer \(exit code 0\)"):
        one.answer(Ended(1, 0))


@pytest.mark.parametrize(("code", "words"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal 9")])
def test_an_end_without_a_word_is_said(code: int, words: str) -> None:
    """In words, also where the process before it had answered."""
    port, one = task()
    one.answer(Line(1, b'{"error":""}'))
    one.answer(Ended(1, 0))
    one.start(Job("y"), 60.0)
    with pytest.raises(TaskError, match=rf"it exited without an answer \({words}\)"):
        one.answer(Ended(2, code))
    assert (one.running, one.deadline, port.killed) == (False, NEVER, [])


@pytest.mark.parametrize("event", [Line(1, b'{"error":"full"}'), Line(1, b"nonsense"), Ended(1, 1)])
def test_a_process_with_one_answer_is_ended_with_it(event: Line | Ended) -> None:
    """Whatever that was."""
    port, one = task()
    try:
        assert one.only_answer(event) == Done("full")
    except TaskError:
        assert event != Line(1, json.dumps({"error": "full"}).encode())
    assert (one.running, one.owns(1), one.deadline) == (False, False, NEVER)
    assert port.killed == ([1] if isinstance(event, Line) else [])


def test_one_that_is_late_is_killed_once() -> None:
    """At its deadline, not before."""
    port, one = task()
    assert (one.late(29.9), port.killed) == (False, [])
    assert (one.late(30.0), port.killed, one.running) == (True, [1], False)
    assert (one.late(1e9), port.killed) == (False, [1])


def test_a_newer_one_takes_its_place() -> None:
    """Never two at once; one that cannot be started leaves none."""
    port, one = task()
    one.start(Job("y"), 60.0)
    assert (port.killed, one.owns(1), one.owns(2), one.deadline) == ([1], False, True, 60.0)
    port.full = True
    with pytest.raises(SpawnFailed):
        one.start(Job("z"), 90.0)
    assert (port.killed, one.running, one.deadline) == ([1, 2], False, NEVER)


@pytest.mark.parametrize("stuck", [0, 1, 3])
def test_one_that_nothing_ends_is_known(stuck: int) -> None:
    """A further one would hang beside it."""
    port, one = task(started=False)
    port.stuck = stuck
    assert one.hung is (stuck > 0)
