"""The guard's part of the history: on the simulated machine, through the real loop."""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from costguard.agent import recorder
from costguard.agent.loop import Loop
from costguard.engine.effects import Tell
from costguard.engine.events import Tick
from costguard.engine.observation import Observation
from costguard.engine.state import Incident
from costguard.history.query import Event
from costguard.history.story import IncidentSummary, story, summaries
from costguard.host.ports import Instant
from costguard.notify.compose import compose
from costguard.notify.job import DeliveryResult, Draft
from costguard.notify.processes import KINDS
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, effective
from costguard.testing.simprograms import HELD_BY

DAY = [Phase(600, 0.0), Phase(3600, 0.9, jitter=0.05), Phase(4000, 0.0), Phase(9**9, 0.9)]


class Journal(Watch):
    """What the guard said, and what people got."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[str] = []

    def said(self, now: object, line: str) -> None:
        self.lines.append(line)

    def message(self, now: object, message: dict[str, Any], delivered: bool) -> None:
        self.told.append(f"{message['kind']} {delivered}")


class LostWorker(Faults):
    """The worker dies right after the command was carried out, and cannot say so."""

    def take(self, subject: str, host: SimHost) -> str:
        return "die_after" if subject == "go" else ""


class NobodyThere(Faults):
    """No message reaches anybody."""

    def take(self, subject: str, host: SimHost) -> str:
        return "fail" if subject == "notify" else ""


class BadDisk(Faults):
    """The history worker fails so many times in one way."""

    def __init__(self, word: str, times: int) -> None:
        self.word, self.left = word, times

    def take(self, subject: str, host: SimHost) -> str:
        if subject != ("spawn:history" if self.word == "spawn" else "history") or self.left <= 0:
            return ""
        self.left -= 1
        return self.word


def play(
    faults: Faults | None = None,
    hold: float | None = None,
    script: list[Phase] | None = None,
    stop: float | None = None,
    **policy: Any,
) -> tuple[SimHost, Journal, Loop]:
    """A day of one GPU; ends by itself."""
    journal = Journal()
    host = SimHost(Machine(gpus=1, script=script or DAY), seed=3, until=20000.0, watch=journal, faults=faults)
    host.world.history = deque()
    if hold is not None:
        host.world.at(hold, lambda: hold_it(host))
    if stop is not None:
        host.world.at(stop, lambda: stop_it(host))
    loop = Loop(
        host, effective(**{"kill_duration": 1800.0, "mode": "live", "kill_action": "command", **policy}), host.start()
    )
    try:
        loop.run()
    except SimOff:
        host.die()
    return host, journal, loop


def hold_it(host: SimHost) -> None:
    host.request(0, {"command": "hold", "seconds": 600, "reason": "a look"})


def stop_it(host: SimHost) -> None:
    host.request(0, {"command": "stop"})


def events(host: SimHost) -> list[Event]:
    rows = [(batch, row) for batch in host.world.history for row in batch["events"]]
    return [
        Event(row["incident"], row["wall"], row["kind"], batch["instance"], "node", json.loads(row["data"]))
        for batch, row in rows
    ]


def what(event: Event) -> tuple[object, ...]:
    return (event.kind, *(event.data.get(name) for name in ("name", "to", "status", "detail")))


def only(host: SimHost) -> IncidentSummary:
    (found,) = summaries(events(host))
    return found


def test_every_minute_is_recorded_once() -> None:
    """From the first tick to the end: no minute is missing, none comes twice, and they add up to the time."""
    host, _journal, _loop = play()
    minutes = [row["minute"] for batch in host.world.history for row in batch["machine"]]
    assert minutes == sorted(set(minutes))
    assert minutes[-1] - minutes[0] == 60 * (len(minutes) - 1)
    seconds = sum(
        row["works"] + row["quiet"] + row["unknown"] for batch in host.world.history for row in batch["machine"]
    )
    assert seconds == pytest.approx(20000.0, abs=25.0), "but for what the reader had not told at the end"
    works = sum(row["works"] for batch in host.world.history for row in batch["machine"])
    assert works == pytest.approx(3600.0 + 11800.0, abs=60.0)


def test_the_story_has_every_message_as_it_was_sent() -> None:
    """With what the guard knows beside the engine, as whose task it is, and with what the sender found out: who held the GPUs."""
    sent: dict[str, tuple[str, ...]] = {}

    class Sent(Journal):
        def message(self, now: object, message: dict[str, Any], delivered: bool) -> None:
            beside = HELD_BY if message["kind"] in KINDS else {}
            text = compose(message["kind"], {"machine": "node", **beside, **message["facts"]})
            sent[f"told: {text.title}"] = tuple(text.body.splitlines())

    host = SimHost(Machine(gpus=1, script=DAY), seed=3, until=20000.0, watch=Sent())
    host.world.history = deque()
    host.world.at(4700.0, lambda: hold_it(host))
    config = {
        **effective(kill_duration=1800.0, mode="live", kill_action="command"),
        "guarded": {"words": "job 7", "owner": "ann"},
    }
    loop = Loop(host, config, host.start())
    loop.run()
    told = {entry.title: entry.lines for entry in story(events(host)) if entry.title.startswith("told: ")}
    assert told == sent
    assert len(told) > 4
    assert any("train of ann" in line for lines in told.values() for line in lines)


def test_a_warning_that_nobody_got_is_told_as_that() -> None:
    """Each try, what followed from the last one, and no word of people who were warned."""
    host, _journal, _loop = play(faults=NobodyThere())
    found = only(host)
    assert (found.result, found.delivered, found.unreached) == ("acted", 0, True)
    entries = story(events(host))
    tries = [
        entry.lines for entry in entries if entry.title.startswith("warning NOT delivered: wall: no terminal takes it")
    ]
    goes_on = ("the warning reached nobody in 3 tries; the countdown goes on anyway",)
    assert tries[:3] == [("it will be retried",), ("it will be retried",), goes_on]
    words = "\n".join("\n".join((entry.title, *entry.lines)) for entry in entries)
    assert "The warning reached nobody in 3 tries." in words, "in the message of the action"
    assert "people were warned" not in words
    assert "people are being warned" not in words
    assert only(play()[0]).unreached is False


def test_an_incident_is_recorded_from_its_warning_to_its_end() -> None:
    """Reason, evidence, who was told and over what, the plan, what was released and what became of it."""
    host, _journal, _loop = play()
    found = only(host)
    assert (found.reason, found.action, found.mode, found.result) == ("idle", "command", "live", "acted")
    assert found.proof.startswith("sim-")
    assert (found.delivered, found.undelivered) == (3, 0)
    kinds = [event.kind for event in events(host)]
    assert kinds[:4] == ["devices", "phase", "told", "outcome"], "first of all the names of the GPUs"
    told = next(event for event in events(host) if event.kind == "told")
    assert told.data["facts"]["readings"], "the readings that it was decided on"
    assert told.data["facts"]["sentence"].startswith("WARNING: ")
    words = "\n".join("\n".join((entry.title, *entry.lines)) for entry in story(events(host)))
    for part in (
        "told: node: the configured command will be run at",
        "warning delivered over wall: 1 terminal (pts/0)",
        "plan for the command: may be carried out",
        "command: the worker reports: ready",
        "command was started, on these readings:\nGPU 0 (Simulated GPU): 0 %",
        "command: outcome: done (proof: sim-",
    ):
        assert part in words


def test_a_hold_a_return_of_work_and_a_dry_run_end_differently() -> None:
    """Each end of an incident is told apart, with who or why."""
    assert (
        only(play(hold=6400.0, script=[*DAY[:2], Phase(2200, 0.0), Phase(9**9, 0.9)])[0]).words
        == "postponed by uid 0: a look"
    )
    cancelled = only(play(script=[*DAY[:2], Phase(2000, 0.0), Phase(9**9, 0.9)])[0])
    assert cancelled.words.startswith("cancelled: ")
    assert only(play(mode="dry-run")[0]).result == "would"


def test_whoever_held_did_not_ask_for_the_stop() -> None:
    """An incident of the guard's own that root postponed has no asker; one that root asked for has."""
    held = only(play(hold=6400.0, script=[*DAY[:2], Phase(2200, 0.0), Phase(9**9, 0.9)])[0])
    assert (held.reason, held.owner) == ("idle", "")
    host, _, _ = play(stop=1000.0)
    asked = summaries(events(host))[0]
    assert (asked.reason, asked.owner) == ("person", "uid 0")


def test_a_further_try_stands_where_its_message_does() -> None:
    """The hold that ended a countdown belongs to its incident, and so does who got that a minute later."""
    _host, _journal, loop = play(hold=6400.0, script=[*DAY[:2], Phase(2200, 0.0), Phase(9**9, 0.9)])
    held = Draft("m9", "held", "info", {"overtakes": "x-i1"})
    loop.history.delivery(held, DeliveryResult(reached={"team": "Slack"}), 2)
    assert loop.history._events[-1].row.incident == "x-i1"


def test_what_is_told_beside_the_end_of_an_incident_is_kept_where_its_further_tries_are() -> None:
    """The look that sees work ends a countdown, and an alarm too: a try of *recovered* stood alone, without its title."""
    beside = Tell("m7", "unknown_recovered", "info", {"takes_back": "critical"})
    _host, _journal, loop = play()
    before = loop._last.state.core._replace(incident=Incident("x-i1", "idle", "", 0.0))
    over = loop._last._replace(state=loop._last.state._replace(core=before._replace(incident=None)), effects=(beside,))
    loop.history.note(Tick(1.0, Observation((), ())), before, over, 1.0, dict)
    loop.history.delivery(Draft("m7", beside.kind, beside.level, beside.facts), DeliveryResult({"team": "Slack"}), 2)
    told, further = [queued.row for queued in loop.history._events][-2:]
    assert (told.kind, further.kind) == ("told", "delivery")
    assert told.incident == further.incident == ""


def test_the_machines_own_end_leaves_the_record_on_the_disk() -> None:
    """Every event is handed to the disk at once, so a shutdown that works leaves who was told and what was accepted."""
    host, _journal, _loop = play(kill_action="shutdown")
    found = only(host)
    assert found.result == "accepted"
    assert found.proof.startswith("sim-")


def test_a_lost_worker_is_not_recorded_as_acceptance() -> None:
    """Nobody accepted anything: while the world is asked the record says so, and it ends as unknown."""
    host, _journal, _loop = play(LostWorker())
    found = events(host)
    asking = next(i for i, event in enumerate(found) if event.kind == "phase" and event.data["to"] == "CONFIRMING")
    assert only(host).result == "unknown"
    assert summaries(found[: asking + 1])[0].result == "asked"


@pytest.mark.parametrize("word", ["hang", "die", "garbage", "fail", "spawn"])
def test_a_disk_that_fails_changes_no_decision_and_loses_nothing(word: str) -> None:
    """The same messages and steps; told once, and once when it works again; every row comes later."""
    good, calm, _loop = play()
    bad, upset, _loop = play(BadDisk(word, 20))
    assert sorted(upset.told) == sorted(calm.told)
    extra = [line for line in upset.lines if line not in calm.lines]
    assert [line[:3] for line in extra] == ["<3>", "<5>"]
    assert "history" in extra[0]
    assert extra[1] == "<5>history is written again"

    def rows(host: SimHost) -> list[object]:
        return [row for batch in host.world.history for row in batch["gpus"]]

    assert rows(bad) == rows(good)
    # a message and a plan that are under way together are done in any order
    assert sorted(map(repr, map(what, events(bad)))) == sorted(map(repr, map(what, events(good))))


def test_memory_is_bounded_and_the_loss_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails for long costs the oldest rows, never memory; how many is recorded."""
    monkeypatch.setattr(recorder, "ROWS_KEPT", 30)
    host, journal, loop = play(BadDisk("fail", 10**9))
    assert len(host.world.history) == 0
    assert sum("history" in line for line in journal.lines) == 1
    assert loop.journal.troubles["history"].endswith("disk is full")
    recovered, _journal, _loop = play(BadDisk("fail", 15))
    lost = [event for event in events(recovered) if event.kind == "lost"]
    kept = sum(len(batch["gpus"]) for batch in recovered.world.history)
    assert lost
    assert kept + sum(event.data["rows"] for event in lost) // 2 == pytest.approx(20000 / 60, abs=2)


def ask(host: SimHost, command: str) -> None:
    host.request(0, {"command": command, "seconds": 60})


def flooded(seconds: Iterable[float], commands: Sequence[str], faults: Faults | None = None) -> SimHost:
    """The day of `play`, with somebody who asks again and again."""
    host = SimHost(Machine(gpus=1, script=DAY), seed=3, until=20000.0, faults=faults)
    host.world.history = deque()
    for at in seconds:
        for number, command in enumerate(commands):
            host.world.at(at + number, partial(ask, host, command))
    Loop(host, effective(kill_duration=1800.0, mode="live", kill_action="command"), host.start()).run()
    return host


def test_a_release_of_nothing_is_no_event() -> None:
    """However often it is asked: the record is the one of a day without it."""
    quiet, loud = flooded([], []), flooded(range(100, 3000, 3), ["release"])
    assert [what(event) for event in events(loud)] == [what(event) for event in events(quiet)]
    assert not [event for event in events(loud) if event.kind == "released"]


def test_a_hold_of_which_no_message_tells_is_an_event() -> None:
    """Else nothing would say why the machine stayed up; one that is told is told once."""
    found = events(flooded([100], ["hold", "hold", "release", "hold"]))
    untold = [event for event in found if event.kind == "held"]
    told = [event for event in found if event.kind == "told" and event.data["name"] == "held"]
    assert len(told) == 1
    assert [event.data["owner"] for event in untold] == [told[0].data["facts"]["owner"]] * 2
    assert all(event.data["hold_until_wall"] > event.wall for event in untold)


def test_what_users_do_pushes_out_nothing_that_the_guard_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk fails, both wait in memory: each in a queue of its own."""
    monkeypatch.setattr(recorder, "EVENTS_KEPT", 60)
    quiet = [what(event) for event in events(flooded([], [], BadDisk("fail", 25))) if event.kind != "lost"]
    after = 9000.0  # the incident is over
    loud = events(flooded(range(int(after), int(after) + 2400, 8), ["hold", "release"], BadDisk("fail", 25)))
    asked = [event for event in loud if event.data.get("by") == "users"]
    assert [what(event) for event in loud if event not in asked and event.kind not in {"lost", "abandon"}][
        : len(quiet)
    ] == quiet
    assert 0 < len([event for event in asked if event.kind == "released"]) <= 60
    assert any(event.kind == "lost" for event in loud)


def test_a_batch_is_sent_again_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file tells a repetition by the batch's name; its rows must be the same then."""
    sent: list[bytes] = []
    spawn = SimHost.spawn

    def watched(self: SimHost, program: str, job: bytes) -> int:
        if program == "history":
            sent.append(job)
        return spawn(self, program, job)

    monkeypatch.setattr(SimHost, "spawn", watched)
    play(BadDisk("die", 7))
    names = [json.loads(job)["batch"] for job in sent]
    assert names.count(names[0]) == 8
    assert len(set(sent)) == len(set(names))


def test_a_large_event_is_cut_not_refused() -> None:
    """Findings without end must not make a line that no pipe takes."""
    host = SimHost(Machine(gpus=1, script=DAY), seed=3, until=20000.0)
    host.world.history = deque()
    findings = [{"code": "x", "text": "many words " * 1000, "hint": ""}] * 3
    host.world.verdicts["command"] = {"verdict": "consequences", "findings": findings}
    Loop(host, effective(kill_duration=1800.0, mode="live", kill_action="command"), host.start()).run()
    assert max(len(json.dumps(batch)) for batch in host.world.history) < 65536
    told = next(event for event in events(host) if event.kind == "told")
    assert told.data["cut"] is True
    assert told.data["facts"]["sentence"]


@pytest.mark.parametrize("wrong", [-400 * 86400.0, -7200.0, 3600.0])
def test_history_does_not_begin_before_the_machine_did(wrong: float) -> None:
    """Until the clock is set, minutes after a boot have its date; those that are not written yet are dated again."""
    start = 1.7e9
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), start_wall=start + wrong, until=1000.0)
    host.world.history = deque()
    booted = host.clock()
    host.world.at(120.0, lambda: setattr(host.world, "wall_offset", start))
    Loop(host, effective(), host.start()).run()
    minutes = sorted(row["minute"] for batch in host.world.history for row in batch["machine"])
    assert minutes[0] >= booted.wall - wrong - 60.0
    assert minutes[-1] <= host.clock().wall
    spent = sum(
        row["works"] + row["quiet"] + row["unknown"] for batch in host.world.history for row in batch["machine"]
    )
    assert spent == pytest.approx(1000.0, abs=60.0), "no minute is lost, and none is there twice"


class Answers(Watch):
    """What clients were answered."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        self.given.append(json.loads(answer))


def _read(host: SimHost) -> None:
    host.request(1000, {"command": "flush"})


def resting(hours: float, *flushes: float) -> tuple[list[float], Answers, int]:
    """When the history of a resting machine was written, what who wanted to read was answered, and how many minutes it has."""
    answers, starts = Answers(), []

    class Disk(Faults):
        def take(self, subject: str, host: SimHost) -> str:
            if subject == "history":
                starts.append(host.now)
            return ""

    machine = Machine(gpus=8, script=[Phase(9**9, 0.0)])
    host = SimHost(machine, seed=3, until=hours * 3600.0, watch=answers, faults=Disk())
    host.world.history = deque()
    for at in flushes:
        host.world.at(at, partial(_read, host))
    Loop(host, effective(kill_duration=9.0**6, unused_after=None), host.start()).run()
    return starts, answers, sum(len(batch["gpus"]) for batch in host.world.history)


def test_what_rests_is_written_each_hour() -> None:
    """One process an hour; the start and the end are events of their own."""
    starts, _answers, minutes = resting(4.5)
    between = [at for at in starts if 600.0 < at < 16100.0]
    assert len(between) == 4
    assert all(
        after - before == pytest.approx(recorder.FLUSH_EVERY_SECONDS, abs=20.0) for before, after in pairwise(between)
    )
    assert minutes >= 4.5 * 60 * 8


def test_who_wants_to_read_has_it_written_but_not_over_and_over() -> None:
    """A process at once, the next one for all who ask a minute later; and they hear when it is over."""
    starts, answers, _minutes = resting(0.9, 1000.0, 1000.02, 1002.0, 1030.0, 1200.0, 1202.0)
    assert [round(at) for at in starts if 600.0 < at < 3000.0] == [1000, 1200]
    assert answers.given == [{"pending": pending} for pending in (True, True, False, False, True, False)]


@pytest.mark.parametrize("faults", [None, NobodyThere()])
def test_who_took_a_message_and_why_others_did_not_is_kept_by_channel(faults: Faults | None) -> None:
    """Not as one text, in which the answer of a server could pass for another channel's."""
    host, _, _ = play(faults)
    told = {event.data["effect"] for event in events(host) if event.kind == "told"}
    fates = [event.data for event in events(host) if event.kind == "outcome" and event.data["effect"] in told]
    assert fates
    for fate in fates:
        assert fate["reached"] == ({} if faults else {"wall": "1 terminal (pts/0)"})
        assert fate["failed"] == ({"wall": "no terminal takes it"} if faults else {})
