"""The host reader's own rules: one sense that fails is one unknown, and an answer waits until another thing is seen."""

import json
import os
import random
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from costguard.agent.host_side import chosen, job_of
from costguard.config import effective
from costguard.config.schema import Settings
from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line
from costguard.readers.host.job import HostJob
from costguard.readers.host.processes import Processes
from costguard.readers.host.reader import ACTIVITIES_TOLD, ActiveSenses, Questions, now, serve
from costguard.readers.host.sense import WORDS, Activity, Moment, Sight, all_unknown
from tests.unit.readers.host.tree import OWN, Tree

SETTINGS = {"quiet_for": 1800.0, "users": [], "ignore_users": []}


def world(tmp: Path) -> HostJob:
    """A machine with no process but the first one, and no terminal."""
    (tmp / "proc" / "1").mkdir(parents=True)
    (tmp / "proc" / "1" / "stat").write_text(f"1 (init) S 0 1 1 0 {'0 ' * 30}")
    (tmp / "proc" / "self").symlink_to("1")
    (tmp / "dev" / "pts").mkdir(parents=True)
    return HostJob({"terminals": SETTINGS}, procfs=str(tmp / "proc"), devfs=str(tmp / "dev"))


class Scripted:
    """A sense that sees, or does, what it is told."""

    def __init__(self, *sights: Sight | Exception) -> None:
        self.sights = list(sights)

    def look(self, at: Moment, processes: Processes) -> Sight:
        seen = self.sights.pop(0)
        if isinstance(seen, Exception):
            raise seen
        return seen


def test_a_sense_that_fails_is_unknown_and_begins_anew(tmp_path: Path) -> None:
    """With where it failed and none of the words of the error: they may quote what is secret."""
    senses = ActiveSenses(world(tmp_path))
    senses._add("other", Scripted(Sight(seen="fine"), Sight(seen="fine")))
    senses._settings = {**senses._settings, "other": {}}
    senses._add("terminals", Scripted(ValueError("token=hunter2")))
    assert senses.look(now())
    failed = senses.sights["terminals"].unknown
    assert failed.startswith("it failed (ValueError in test_reader.py:")
    assert "hunter2" not in str(senses.told())
    assert senses.sights["other"].seen == "fine"
    senses.look(now())
    assert senses.sights["terminals"] == Sight(seen="no terminal")


def test_a_sense_may_look_between_two_looks(tmp_path: Path) -> None:
    """At the moment that it names, and a bug in it is its own."""

    class Wakes(Scripted):
        wakes = 50.0

        def __init__(self) -> None:
            super().__init__()
            self.woken: list[float] = []

        def between(self, at: Moment) -> None:
            self.woken.append(at.boot)
            self.wakes = float("inf")
            if at.boot > 55.0:
                raise ValueError

    senses, sense = ActiveSenses(world(tmp_path)), Wakes()
    assert senses.wakes == float("inf")
    senses._add("terminals", sense)
    assert senses.wakes == 50.0
    senses.between(Moment(49.0, 0.0))
    senses.between(Moment(50.0, 0.0))
    senses.between(Moment(51.0, 0.0))
    assert sense.woken == [50.0]
    sense.wakes = 55.0
    senses.between(Moment(56.0, 0.0))
    assert senses._senses["terminals"] is not sense


def test_it_looks_between_while_nothing_is_asked(tmp_path: Path) -> None:
    """The guard's next question may come much later."""
    source, end = os.pipe()

    class Wakes(Scripted):
        wakes = now().boot + 0.01

        def between(self, at: Moment) -> None:
            self.wakes = float("inf")
            os.close(end)  # the guard is gone, and the reader ends

    senses = ActiveSenses(world(tmp_path))
    senses._add("terminals", Wakes())
    said: list[bytes] = []
    serve(senses, Questions(source), said.append)
    os.close(source)
    assert senses.wakes == float("inf")
    assert said == []


def test_another_question_goes_on_in_the_rhythm_of_the_one_before(tmp_path: Path) -> None:
    """What it asks for is due no sooner; one without a rhythm is answered at once."""
    source, end = os.pipe()
    looked: list[float] = []

    class Looks(Scripted):
        def look(self, at: Moment, processes: Processes) -> Sight:
            looked.append(at.boot)
            if len(looked) == 1:
                os.write(end, b'{"read":2,"every":0.2,"until":1e9}\n')
            elif len(looked) == 2:
                os.write(end, b'{"read":3}\n')
            else:
                os.close(end)
            return Sight(seen=str(len(looked)))

    senses = ActiveSenses(world(tmp_path))
    senses._add("terminals", Looks())
    os.write(end, b'{"read":1,"every":0.2,"until":1e9}\n')
    said: list[bytes] = []
    serve(senses, Questions(source), said.append)
    os.close(source)
    assert [json.loads(line)["read"] for line in said] == [1, 2, 3]
    assert looked[1] - looked[0] >= 0.2


def test_no_look_is_made_up_for(tmp_path: Path) -> None:
    """The process stood still, as of a machine that was suspended: it looks once, and goes on in a new rhythm."""
    source, end = os.pipe()
    looked: list[float] = []

    class Looks(Scripted):
        def look(self, at: Moment, processes: Processes) -> Sight:
            looked.append(at.boot)
            if len(looked) == 2:
                time.sleep(0.25)
            elif len(looked) == 4:
                os.close(end)
            return Sight(seen="nothing")

    senses = ActiveSenses(world(tmp_path))
    senses._add("terminals", Looks())
    os.write(end, b'{"read":1}\n{"read":2,"every":0.1,"until":1e9}\n')
    serve(senses, Questions(source), lambda _: None)
    os.close(source)
    assert looked[2] - looked[1] >= 0.25
    assert looked[3] - looked[2] >= 0.1


def test_who_waits_for_an_answer_may_hear_it_between_two_looks(tmp_path: Path) -> None:
    """As long as it does not rest."""

    class Asks(Scripted):
        rests_until = 0.0

        def filenos(self) -> list[int]:
            return [7]

        def go_on(self, at: Moment) -> None:
            pass

    senses, sense = ActiveSenses(world(tmp_path)), Asks(Sight(), Sight(), Sight())
    senses._add("terminals", sense)
    assert senses.waiting() == {}
    senses.look(Moment(10.0, 0.0))
    assert senses.waiting() == {7: sense.go_on}
    sense.rests_until = 99.0
    senses.look(Moment(20.0, 0.0))
    assert senses.waiting() == {}


def test_whoever_waits_is_heard_while_nobody_asks() -> None:
    """Once for each, as long as it waits; and a question may come in pieces."""
    (source, end), (other, other_end) = os.pipe(), os.pipe()
    questions, heard_of = Questions(source), []
    waiting = {other: lambda _: heard_of.append(os.read(other, 9))}
    os.write(other_end, b"one")
    assert questions.next(5.0, waiting) is None
    assert heard_of == [b"one"]
    os.write(other_end, b"two")
    assert questions.next(0.0, {}) is None
    os.write(end, b'{"re')
    assert questions.next(5.0, {}) is None
    os.write(end, b'ad":1}\n{"read":2}\n')
    assert questions.next(5.0, waiting) == b'{"read":1}\n'
    assert questions.next(5.0, waiting) == b'{"read":2}\n'
    assert heard_of == [b"one", b"two"]
    assert questions.next(0.0, waiting) is None
    os.close(end)
    assert questions.next(5.0, waiting) == b""
    for one in (source, other, other_end):
        os.close(one)


def test_a_sense_that_this_version_does_not_have_is_unknown(tmp_path: Path) -> None:
    """Never quiet."""
    senses = ActiveSenses(world(tmp_path)._replace(senses={"telepathy": {}}))
    senses.look(now())
    assert "it failed (LookupError" in senses.sights["telepathy"].unknown


def test_what_only_goes_on_is_not_news(tmp_path: Path) -> None:
    """A later moment of the same activity; anything else is."""
    senses = ActiveSenses(world(tmp_path))
    one = Activity("ann on pts/3", "typed", 5.0, 6.0, "rest", "ann")
    seen = [
        Sight((one,)),
        Sight((one._replace(last=9.0),)),
        Sight((one._replace(what="opened it"),)),
        Sight((one._replace(what="opened it", lets_go="its end"),)),
        Sight((one._replace(what="opened it", lets_go="its end", user="bob"),)),
        Sight(unknown="x"),
        Sight(),
    ]
    senses._add("terminals", Scripted(*seen))
    assert [senses.look(now()) for _ in seen] == [True, False, True, True, True, True, True]


def test_a_crowd_is_told_as_one(tmp_path: Path) -> None:
    """No answer grows without bound: the first are named, the others counted; and long texts are cut."""
    senses = ActiveSenses(world(tmp_path))
    crowd = [
        Activity(f"user{number} on pts/{number}" + "x" * 999, "typed", 5.0, 6.0 + number, "rest")
        for number in range(99)
    ]
    senses._add("terminals", Scripted(Sight(tuple(crowd))))
    senses.look(now())
    rows = senses.told()["terminals"].active
    assert len(rows) == ACTIVITIES_TOLD + 1
    assert rows[-1] == Activity("83 more", "are active", 104.0 - 99.0, 104.0, "rest")
    assert len(json.dumps(rows)) < 10_000


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 30, 12_000])
def test_a_long_list_of_troubles_ends_at_a_whole_one(tmp_path: Path, count: int) -> None:
    """The others are counted: half a sentence would say something else."""
    troubles = {f"vLLM of a.user.with.a.long.name on port {20_000 + number} does not answer" for number in range(count)}
    senses = ActiveSenses(world(tmp_path))
    senses._add("serving", Scripted(Sight(unknown=all_unknown(troubles))))
    senses.look(now())
    *told, last = senses.told()["serving"].unknown.split("; ")
    more = re.fullmatch(r"and (\d+) more", last)
    told += [] if more else [last]
    assert set(told) <= troubles
    assert len(told) + (int(more[1]) if more else 0) == count
    assert len(told) == min(count, 4)


def test_one_long_trouble_does_not_hide_that_there_are_more(tmp_path: Path) -> None:
    """It is cut; alone, where all texts are."""
    assert all_unknown({"a" * 999}) == "a" * WORDS
    told = all_unknown({"a" * 999, "b"})
    assert told.endswith("a; and 1 more")
    assert len(told) <= WORDS


@pytest.mark.parametrize("more", [0, 1, 2])
def test_those_beyond_the_first_are_counted(tmp_path: Path, more: int) -> None:
    """Each, from the first of them on."""
    senses = ActiveSenses(world(tmp_path))
    crowd = tuple(
        Activity(f"user{number}", "typed", 5.0, 6.0 + number, "rest") for number in range(ACTIVITIES_TOLD + more)
    )
    senses._add("terminals", Scripted(Sight(crowd)))
    senses.look(now())
    told = [one.who for one in senses.told()["terminals"].active]
    assert told == [one.who for one in crowd[:ACTIVITIES_TOLD]] + ([f"{more} more"] if more else [])


@contextmanager
def program(job: HostJob) -> Iterator[subprocess.Popen[bytes]]:
    """The real process, which ends with its input."""
    with subprocess.Popen(command_lines()["host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        process.stdin.write(to_line(job) + b"\n")
        yield process
        process.stdin.close()
        assert process.wait(20) == 0


def ask(process: subprocess.Popen[bytes], **question: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(question).encode() + b"\n")


def heard(process: subprocess.Popen[bytes], seconds: float = 20.0) -> Any:
    """One answer; None when none came."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return json.loads(process.stdout.readline()) if ready else None


def test_an_answer_waits_until_another_thing_is_seen(tmp_path: Path) -> None:
    """Or until it is time; another question ends the wait; and the first look of all is an answer."""
    with program(world(tmp_path)) as process:
        ask(process, read=1, every=0.02, until=now().boot + 999.0)
        assert heard(process) == {"read": 1, "senses": {"terminals": [[], "", "no terminal"]}}
        ask(process, read=2, every=0.02, until=now().boot + 999.0)
        assert heard(process, 0.1) is None
        os.rmdir(tmp_path / "dev" / "pts")
        (tmp_path / "proc" / "2").mkdir()
        (tmp_path / "proc" / "2" / "stat").write_text(f"2 (bash) S 1 2 2 34816 {'0 ' * 30}")
        answer = heard(process)
        assert answer["read"] == 2
        assert "/pts cannot be read" in answer["senses"]["terminals"][1]
        ask(process, read=3, every=0.02, until=now().boot + 999.0)
        ask(process, read=4)
        assert heard(process)["read"] == 4
        ask(process, read=5, every=0.02, until=now().boot + 0.05)
        assert heard(process)["read"] == 5


def test_what_has_been_said_is_not_said_again(tmp_path: Path) -> None:
    """To a question that leaves it time; one that does not is answered in full."""
    with program(world(tmp_path)) as process:
        rows = {"terminals": [[], "", "no terminal"]}
        ask(process, read=1, every=0.02, until=now().boot + 999.0)
        assert heard(process) == {"read": 1, "senses": rows}
        for number in (2, 3):
            ask(process, read=number, every=0.02, until=now().boot + 0.05)
            assert heard(process) == {"read": number, "senses": 1}
        ask(process, read=4)
        assert heard(process) == {"read": 4, "senses": rows}
        ask(process, read=5, every=0.02, until=now().boot + 0.05)
        assert heard(process) == {"read": 5, "senses": 4}


NETWORK = "Inter-|Receive\n face|bytes\n  eth0: {0} 0 0 0 0 0 0 0 {0} 0 0 0 0 0 0 0\n"


CHANGES = 0.03
"""Looks in which a process begins or ends."""


def happens(tree: Tree, chance: random.Random, moved: list[int]) -> None:
    """Bytes move or do not; now and then a program begins or ends."""
    moved[0] += chance.choice((0, 0, 0, 5_000_000))
    tree.write("proc/net/dev", NETWORK.format(moved[0]))
    tree.write("proc/vmstat", f"nr\nnr_dirtied {moved[0] // 4096}\npgpgin {moved[0] // 1024}\npgpgout 0\n")
    for pid in range(200, 206):
        if (tree.proc / str(pid)).exists():
            tree.write(f"proc/{pid}/io", f"rchar: {moved[0]}\nwchar: 0\n")
    if chance.random() > CHANGES:
        return
    pid = chance.randrange(200, 206)
    if (tree.proc / str(pid)).exists():
        tree.ends(pid)
        return
    name = chance.choice(("sftp-server", "vllm", "torchrun", "slurmd", "train"))
    tree.process(pid, name, start=tree.now)
    tree.write(f"proc/{pid}/cmdline", f"{name}\0serve\0")
    tree.opens(pid, *(["/dev/nvidia0", "/dev/nvidia-uvm"] if name == "train" else []))


@pytest.mark.parametrize("seed", range(6))
def test_a_sense_that_rests_misses_nothing(tmp_path: Path, seed: int) -> None:
    """Whatever begins and ends: it sees what its like sees that looks each time."""
    tree, chance, moved = Tree(tmp_path), random.Random(seed), [0]
    places = {"procfs": tree.place.proc, "sysfs": tree.place.sys, "devfs": tree.place.dev}
    job = job_of(chosen(effective.senses(Settings())), places)
    rests, looks = ActiveSenses(job), ActiveSenses(job)
    rested = 0
    for _ in range(400):
        happens(tree, chance, moved)
        tree.now += chance.choice((1.0, 10.0))
        moment = Moment(tree.now, tree.now)
        looks._rests.clear()
        changed = rests.look(moment), looks.look(moment)
        assert rests.sights == looks.sights
        assert changed[0] == changed[1]
        rested += sum(until > tree.now for until in rests._rests.values())
    assert rested > 400, "nothing of it is tried"


@pytest.mark.parametrize("name", ["terminals", "ssh", "jupyter", "serving", "cluster", "traffic", "probe"])
def test_each_sense_rests_where_nothing_happens(tmp_path: Path, name: str) -> None:
    """It costs a machine at rest nothing, also after there was something of its kind."""
    tree = Tree(tmp_path)
    tree.write("proc/net/dev", NETWORK.format(5))
    tree.write(f"proc/{OWN}/net/tcp", "sl\n")
    tree.write("proc/vmstat", "nr\nnr_dirtied 1\npgpgin 4\npgpgout 0\n")
    (tmp_path / "dev/pts").mkdir(parents=True)
    places = {"procfs": tree.place.proc, "sysfs": tree.place.sys, "devfs": tree.place.dev}
    senses = ActiveSenses(job_of(chosen(effective.senses(Settings())), places))

    def rests() -> bool:
        for _ in range(3):
            tree.now += 10.0
            senses.look(Moment(tree.now, tree.now))
        return senses._rests[name] > tree.now

    assert rests()
    for pid, program in enumerate(("bash", "sshd", "jupyter-lab", "vllm", "torchrun"), 200):
        tree.process(pid, program, terminal=34816, start=tree.now)
        tree.write(f"proc/{pid}/cmdline", f"{program}\0serve\0")
    rests()
    for pid in range(200, 205):
        tree.ends(pid)
    assert rests()


def test_no_arguments_are_kept_after_a_look(tmp_path: Path) -> None:
    """They may hold a password, and this process stays."""

    class Asks(Scripted):
        def look(self, at: Moment, processes: Processes) -> Sight:
            self.processes = processes
            return Sight(seen=self.read())

        def read(self) -> str:
            (process,) = self.processes.all()
            return self.processes.arguments(process).decode()

    senses, asks = ActiveSenses(world(tmp_path)), Asks()
    (tmp_path / "proc" / "1" / "cmdline").write_text("init --password=hunter2")
    senses._add("asks", asks)
    senses.look(now())
    assert "hunter2" in senses.sights["asks"].seen
    (tmp_path / "proc" / "1" / "cmdline").write_text("init")
    assert asks.read() == "init"
