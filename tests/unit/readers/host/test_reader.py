"""The host reader's own rules: one sense that fails is one unknown, and an answer waits until another thing is seen."""

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line
from costguard.readers.host.job import HostJob
from costguard.readers.host.processes import Processes
from costguard.readers.host.reader import ACTIVITIES_TOLD, Senses, now
from costguard.readers.host.sense import Activity, Moment, Sight

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
    senses = Senses(world(tmp_path))
    senses._senses["other"] = Scripted(Sight(seen="fine"), Sight(seen="fine"))
    senses._settings = {**senses._settings, "other": {}}
    senses._senses["terminals"] = Scripted(ValueError("token=hunter2"))
    assert senses.look(now())
    failed = senses.sights["terminals"].unknown
    assert failed.startswith("it failed (ValueError in test_reader.py:")
    assert "hunter2" not in json.dumps(senses.rows())
    assert senses.sights["other"].seen == "fine"
    senses.look(now())
    assert senses.sights["terminals"] == Sight(seen="no terminal")


def test_a_sense_that_this_version_does_not_have_is_unknown(tmp_path: Path) -> None:
    """Never quiet."""
    senses = Senses(world(tmp_path)._replace(senses={"telepathy": {}}))
    senses.look(now())
    assert "it failed (LookupError" in senses.sights["telepathy"].unknown


def test_what_only_goes_on_is_not_news(tmp_path: Path) -> None:
    """A later moment of the same activity; anything else is."""
    senses = Senses(world(tmp_path))
    one = Activity("ann on pts/3", "typed", 5.0, 6.0, "rest", "ann")
    seen = [
        Sight((one,)),
        Sight((one._replace(last=9.0),)),
        Sight((one._replace(what="opened it"),)),
        Sight(unknown="x"),
        Sight(),
    ]
    senses._senses["terminals"] = Scripted(*seen)
    assert [senses.look(now()) for _ in seen] == [True, False, True, True, True]


def test_a_crowd_is_told_as_one(tmp_path: Path) -> None:
    """No answer grows without bound: the first are named, the others counted; and long texts are cut."""
    senses = Senses(world(tmp_path))
    crowd = [
        Activity(f"user{number} on pts/{number}" + "x" * 999, "typed", 5.0, 6.0 + number, "rest")
        for number in range(99)
    ]
    senses._senses["terminals"] = Scripted(Sight(tuple(crowd)))
    senses.look(now())
    rows = senses.rows()["terminals"][0]
    assert len(rows) == ACTIVITIES_TOLD + 1
    assert rows[-1][:4] == ["83 more", "are active", 104.0 - 99.0, 104.0]
    assert len(json.dumps(rows)) < 10_000


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
        answer = heard(process)
        assert answer["read"] == 2
        assert "/pts cannot be read" in answer["senses"]["terminals"][1]
        ask(process, read=3, every=0.02, until=now().boot + 999.0)
        ask(process, read=4)
        assert heard(process)["read"] == 4
        ask(process, read=5, every=0.02, until=now().boot + 0.05)
        assert heard(process)["read"] == 5
