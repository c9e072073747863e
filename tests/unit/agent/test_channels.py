"""A channel that failed while another took the message gets it later, as often as configured, and as long as it is true."""

import json
from typing import Any

import pytest

from costguard.agent.jitter import Jitter
from costguard.agent.quota import LIMIT
from costguard.agent.recorder import Record
from costguard.agent.redelivery import QUEUE_LIMIT
from costguard.agent.workers import Workers
from costguard.engine import time_limits
from costguard.engine.effects import Tell
from costguard.host.ports import Instant, SpawnFailed
from costguard.notify.job import DeliveryResult, Draft, Overtaking
from costguard.process.wire import from_line
from tests.unit.agent.crew import begin, ended, wrote

NOW = 100.0
WARNING = Tell("m1", "warning", "critical", {"incident": "i1"})
CONFIG: dict[str, Any] = {
    "policy": {"mode": "live"}, "paths": {"runtime": "/run/x"},
    "notify": {"local": ["wall"], "channels": {"team": {"urls": "env:A"}, "mail": {"urls": "env:B"}}, "attempts": 3},
}  # fmt: skip


IN_FLEET: dict[str, Any] = {**CONFIG, "policy": {"mode": "live", "grace": 600.0}, "cloud": {"spread": 1200.0}}


class Port:
    """Processes of which only what is asked of them is known, and a journal."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.killed: list[int] = []
        self.journal: list[str] = []
        self.full = False
        self.remembers = False  # whether it can be asked what became of a message
        self.wall = 1.7e9
        self.stopped: list[int] = []  # children that try no more
        self.hurried: list[int] = []  # those of them that leave at once

    def clock(self) -> Instant:
        return Instant(0.0, 0.0, self.wall, None)

    def spawn(self, program: str, job: bytes) -> int:
        if self.full or (program == "recall" and not self.remembers):
            raise SpawnFailed("no room for another process")
        self.jobs.append(json.loads(job))
        return len(self.jobs)

    def send(self, child: int, line: bytes) -> bool:
        said = from_line(Overtaking, line)
        assert said.later is not None
        self.stopped.append(child)
        self.hurried += [child] * said.leave
        return True

    def kill(self, child: int) -> None:
        self.killed.append(child)

    def say(self, line: str) -> None:
        self.journal.append(line)


class Crew:
    """A guard's workers, driven by hand."""

    def __init__(self, **notify: object) -> None:
        self.port = Port()
        config = {**CONFIG, "notify": {**CONFIG["notify"], **notify}}
        self.recorded: list[
            tuple[str, dict[str, str], int]
        ] = []  # what the history gets: message, why not, at which try
        self.workers = Workers(self.port, config, Jitter("x", attended=False), self._record)  # type: ignore[arg-type] # of a host it uses these

    def _record(self, message: Draft, answer: DeliveryResult, tries: int) -> None:
        self.recorded.append((message.id, dict(answer.failed), tries))

    def told(self, effect: Tell, now: float, reached: dict[str, str], failed: dict[str, str]) -> None:
        """A message, and what came of it."""
        assert begin(self.workers, effect, now) is None
        self.answers(now, reached, failed)

    def answers(self, now: float, reached: dict[str, str], failed: dict[str, str], **more: object) -> None:
        """The worker that was started last says so, and ends."""
        child = len(self.port.jobs)
        wrote(self.workers, child, json.dumps({"reached": reached, "failed": failed, **more}).encode(), now)
        ended(self.workers, child, 0, now)

    def left(self) -> Any:
        """What a guard that is killed now leaves to the next one, as it is saved."""
        return json.loads(json.dumps(self.workers.kept))

    @property
    def channels(self) -> list[list[str]]:
        """To which channels each message went."""
        return [job["channels"] for job in self.port.jobs]


def test_the_channel_that_failed_gets_it_after_a_minute_and_the_others_not_again() -> None:
    """The same message, with its id; when it arrives, the journal says so."""
    crew = Crew()
    crew.told(WARNING, NOW, {"wall": "1 terminal", "mail": "E-Mail"}, {"team": "HTTP 503"})
    assert crew.workers.deadline == NOW + 60.0
    assert crew.workers.late(NOW + 59.0) == []
    assert len(crew.port.jobs) == 1
    assert crew.workers.late(NOW + 60.0) == []
    assert crew.channels[1] == ["team"]
    assert crew.port.jobs[1]["message"]["id"] == "m1"
    assert crew.workers.owns(2)
    crew.answers(NOW + 61.0, {"team": "Slack"}, {})
    assert crew.port.journal == [
        "message m1 (warning): not delivered: team: HTTP 503",
        "message m1 (warning): team: arrived on try 2",
    ]
    assert crew.workers.deadline == float("inf")


def test_what_waits_to_be_sent_again_outlives_the_guard() -> None:
    """Killed between two tries: the next guard of the boot asks that channel, and counts on from there."""
    crew, after = Crew(attempts=3), Crew(attempts=3)
    crew.told(WARNING, NOW, {"wall": "1 terminal", "mail": "E-Mail"}, {"team": "HTTP 503"})
    after.workers.resume(crew.left(), NOW + 5.0)
    assert after.workers.deadline == NOW + 65.0
    after.workers.late(NOW + 65.0)
    (job,) = after.port.jobs
    assert (job["channels"], job["message"]["id"], job["again"]) == (["team"], "m1", True)
    assert [one["channels"] for one in after.left()["waiting"]] == [["team"]], "also while it is being sent"
    after.answers(NOW + 66.0, {}, {"team": "HTTP 503"})
    after.workers.late(NOW + 300.0)
    after.answers(NOW + 301.0, {}, {"team": "HTTP 503"})
    assert after.port.journal[-1].endswith("given up after 3 tries: HTTP 503")
    assert after.left()["waiting"] == []


@pytest.mark.parametrize(
    ("guarded", "facts", "local", "hears"),
    [
        ({"tells": True}, {"mode": "live", "incident": "i1"}, ["wall"], 1),
        ({"tells": True}, {"mode": "live", "incident": "i1"}, ["task", "wall"], 1),
        ({"tells": False}, {"mode": "live", "incident": "i1"}, ["wall"], 0),
        ({"words": "job 7"}, {"mode": "live", "incident": "i1"}, ["wall"], 0),
        ({"tells": True}, {"mode": "dry-run", "incident": "i1"}, ["wall"], 0),
        ({"tells": True}, {"mode": "live", "incident": ""}, ["wall"], 0),
        ({"tells": True}, {"mode": "live"}, ["wall"], 0),
        ({}, {"mode": "live", "incident": "i1"}, ["wall"], 0),
        (None, {"mode": "live", "incident": "i1"}, ["wall"], 0),
    ],
)
def test_in_the_task_itself_its_owner_hears_what_happens_to_it(
    guarded: dict[str, object] | None, facts: dict[str, object], local: list[str], hears: int
) -> None:
    """Once, where its scheduler has a way there, and of what really happens."""
    crew = Crew(local=local)
    config: dict[str, object] = {"task_plug_ins": ["slurm=x"], "task": {"cancel": True}}
    if guarded is not None:
        config["guarded"] = guarded
    crew.workers.config = {**crew.workers.config, **config}
    job = crew.workers.message(Draft("m1", "warning", "critical", facts))
    assert job.channels.count("task") == hears
    assert [name for name in job.channels if name != "task"] == ["wall", "team", "mail"]
    needed = {key: job.settings.get(key) for key in ("task_plug_ins", "task_settings")}
    if hears:
        assert needed == ({"task_plug_ins": ["slurm=x"], "task_settings": {"cancel": True}})


@pytest.mark.parametrize(
    ("kind", "action", "sent"), [("done", "end_process", 0), ("acting", "end_process", 0), ("done", "command", 1)]
)
def test_that_costguard_has_exited_is_not_said_by_the_next_one(kind: str, action: str, sent: int) -> None:
    """*Nothing is watched any more* is false from its start on; what was done to others stays done."""
    crew, after = Crew(), Crew()
    crew.told(
        Tell("m1", kind, "info", {"incident": "i1", "action": action}), NOW, {"mail": "E-Mail"}, {"team": "HTTP 503"}
    )
    after.workers.resume(crew.left(), NOW + 5.0)
    after.workers.late(NOW + 65.0)
    assert len(after.port.jobs) == sent
    assert after.recorded == [] if sent else [("m1", {"team": "not sent again: costguard restarted"}, 2)]


def test_it_is_given_up_after_as_many_tries_as_configured() -> None:
    """With growing pauses; then the journal says why."""
    crew = Crew(attempts=3)
    crew.told(WARNING, NOW, {"mail": "x"}, {"team": "HTTP 503"})
    crew.workers.late(NOW + 60.0)
    crew.answers(NOW + 60.0, {}, {"team": "HTTP 503"})
    assert crew.workers.deadline == NOW + 180.0
    crew.workers.late(NOW + 180.0)
    crew.answers(NOW + 180.0, {}, {"team": "HTTP 500"})
    assert crew.port.journal[1:] == ["message m1 (warning): team: given up after 3 tries: HTTP 500"]
    assert (len(crew.port.jobs), crew.workers.deadline) == (3, float("inf"))


@pytest.mark.parametrize(
    ("effect", "reached", "failed"),
    [
        (WARNING, {"wall": "x", "team": "y", "mail": "z"}, {}),
        (WARNING, {}, {"team": "HTTP 503"}),
        (WARNING, {"team": "x"}, {"wall": "nobody"}),
        (Tell("m1", "held", "info", {}), {"mail": "x"}, {"team": "HTTP 503"}),
    ],
)
def test_what_is_not_sent_again(effect: Tell, reached: dict[str, str], failed: dict[str, str]) -> None:
    """What arrived; what reached nobody, which the engine repeats; a terminal; what is no warning."""
    crew = Crew()
    crew.told(effect, NOW, reached, failed)
    assert crew.workers.deadline == float("inf")


def test_what_overtakes_a_message_is_sent_again_as_that_would_have_been() -> None:
    """A channel that was warned, and was down while the rest was told: it hears the end, whatever the level of that."""
    crew = Crew()
    crew.told(Tell("m1", "acting", "warning", {"incident": "i1"}), NOW, {"mail": "x"}, {"team": "HTTP 503"})
    crew.told(Tell("m2", "done", "info", {"incident": "i1"}), NOW + 30.0, {"mail": "x"}, {"team": "HTTP 503"})
    assert crew.workers.deadline == NOW + 90.0
    crew.workers.late(NOW + 90.0)
    assert (crew.channels[-1], crew.port.jobs[-1]["message"]["id"]) == (["team"], "m2")
    crew.answers(NOW + 91.0, {"team": "Slack"}, {})
    assert [line.partition("): ")[2] for line in crew.port.journal] == [
        "not delivered: team: HTTP 503",
        "team: not sent again: overtaken by done",
        "not delivered: team: HTTP 503",
        "team: arrived on try 2",
    ]
    assert crew.recorded == [("m1", {"team": "not sent again: overtaken by done"}, 2), ("m2", {}, 2)]


def test_what_is_over_before_its_next_try_is_in_the_history() -> None:
    """A countdown of which a channel never heard has ended: who reads the history later need not guess from the journal."""
    crew = Crew()
    crew.told(
        Tell("m1", "warning", "warning", {"incident": "i1", "due_in_seconds": 50.0}),
        NOW,
        {"mail": "x"},
        {"team": "503"},
    )
    crew.workers.late(NOW + 60.0)
    assert crew.recorded == [("m1", {"team": "not sent again, its time is over"}, 2)]
    assert len(crew.port.jobs) == 1


@pytest.mark.parametrize(
    "kind", ["unknown_alarm", "notice", "weak_sign", "deadline_passed", "preflight_refused", "acting"]
)
def test_an_alarm_that_nobody_took_is_sent_again(kind: str) -> None:
    """The engine tells it once and waits for its next turn, which may be a day away: the guard sees to it that it arrives."""
    crew = Crew()
    crew.told(Tell("m1", kind, "critical", {}), NOW, {}, {"wall": "nobody", "team": "HTTP 503", "mail": "no route"})
    crew.workers.late(NOW + 60.0)
    assert crew.channels[1:] == [["team", "mail"]]
    crew.answers(NOW + 61.0, {"team": "Slack"}, {"mail": "no route"})
    crew.workers.late(NOW + 181.0)
    assert crew.channels[2:] == [["mail"]]


def test_a_worker_that_died_told_nobody() -> None:
    """What it was to send is sent again to every channel beyond this machine."""
    crew = Crew()
    assert begin(crew.workers, Tell("m1", "unknown_alarm", "critical", {}), NOW) is None
    ended(crew.workers, 1, -9, NOW + 1.0)
    crew.workers.late(NOW + 61.0)
    assert crew.channels[1:] == [["team", "mail"]]
    assert begin(crew.workers, Tell("m2", "notice", "critical", {}), NOW + 70.0) is None
    crew.answers(NOW + 71.0, {"team": "x", "mail": "y"}, {})
    full = Crew()
    full.port.full = True
    assert begin(full.workers, Tell("m1", "unknown_alarm", "critical", {}), NOW) is not None
    full.port.full = False
    full.workers.late(NOW + 61.0)
    assert full.channels == [["team", "mail"]]
    hung = Crew()
    assert begin(hung.workers, Tell("m1", "unknown_alarm", "critical", {}), NOW) is None
    hung.workers.late(NOW + time_limits.TELL.killed)
    hung.workers.late(NOW + time_limits.TELL.killed + 61.0)
    assert hung.channels[1:] == [["team", "mail"]]


def remembering() -> Crew:
    """A crew that can ask what became of a message."""
    crew = Crew()
    crew.port.remembers = True
    return crew


@pytest.mark.parametrize("end", ["died", "hung", "garbage"])
def test_what_a_worker_wrote_down_counts_when_it_is_gone(end: str) -> None:
    """One channel has it: the engine hears that it arrived, and the other one alone gets it again."""
    crew = remembering()
    assert begin(crew.workers, WARNING, NOW) is None
    now = NOW + (time_limits.TELL.killed if end == "hung" else 1.0)
    if end == "died":
        assert ended(crew.workers, 1, -9, now) is None
    elif end == "garbage":
        assert wrote(crew.workers, 1, b"Segmentation fault", now) is None
        assert crew.port.killed == [1]
    else:
        assert crew.workers.late(now) == []
    asked = crew.port.jobs[1]
    assert (asked["message"]["id"], asked["channels"], asked["before"]) == ("m1", ["wall", "team", "mail"], now)
    answer = {"reached": {"mail": "E-Mail"}, "failed": {"team": f"{asked['why']}; it was not sent"}}
    outcome = wrote(crew.workers, 2, json.dumps(answer).encode(), now + 0.1)
    assert outcome is not None
    assert (outcome.status, outcome.proof) == ("delivered", "mail: E-Mail")
    assert ended(crew.workers, 2, 0, now + 0.1) is None
    crew.workers.late(now + 61.0)
    assert crew.channels[2:] == [["team"]]


@pytest.mark.parametrize("end", ["died", "hung"])
def test_whose_record_cannot_be_asked_may_have_arrived(end: str) -> None:
    """It is asked once; the reason is that of the worker that was to tell it."""
    crew = remembering()
    assert begin(crew.workers, WARNING, NOW) is None
    assert ended(crew.workers, 1, -9, NOW + 1.0) is None
    if end == "died":
        outcome = ended(crew.workers, 2, 1, NOW + 2.0)
    else:
        (outcome,) = crew.workers.late(NOW + 1.0 + time_limits.RECALL.killed)
    assert outcome is not None
    assert dict(outcome.failed)["team"] == "its process exited without a result (signal 9); it may have arrived"


def test_what_became_of_the_messages_of_a_killed_guard_is_kept() -> None:
    """As its deliveries wrote it down; the engine, which tells again what counts, hears nothing of it."""
    kept: list[tuple[str, str, object, dict[str, str]]] = []
    crew = remembering()
    crew.workers = Workers(
        crew.port, crew.workers.config, Jitter("x", attended=False),  # type: ignore[arg-type] # of a host it uses these
        lambda draft, answer, _tries: kept.append((draft.id, draft.kind, draft.facts["incident"], dict(answer.reached))),
    )  # fmt: skip
    crew.workers.resume(None, NOW)
    assert (crew.port.jobs[0]["before"], crew.port.jobs[0].get("message")) == (NOW, None)
    assert crew.workers.owns(1)
    for number in (7, 8):
        answer = {"reached": {"team": "Slack"}, "beside": {"id": f"m{number}", "kind": "warning", "incident": "i1"}}
        assert wrote(crew.workers, 1, json.dumps(answer).encode(), NOW) is None
    assert ended(crew.workers, 1, 0, NOW) is None
    assert kept == [(f"m{number}", "warning", "i1", {"team": "Slack"}) for number in (7, 8)]
    assert crew.workers.deadline == float("inf")


def test_a_later_message_of_the_incident_overtakes_it() -> None:
    """Nobody reads that the machine will stop after it was cancelled; what was found out meanwhile is another matter."""
    crew = Crew()
    crew.told(WARNING, NOW, {"mail": "x"}, {"team": "HTTP 503"})
    crew.told(Tell("m9", "finding", "warning", {}), NOW + 1.0, {"mail": "x"}, {"team": "HTTP 503"})
    crew.told(Tell("m2", "cancelled", "info", {"incident": "i1"}), NOW + 5.0, {"wall": "x", "team": "y"}, {})
    crew.workers.late(NOW + 61.0)
    assert [job["message"]["id"] for job in crew.port.jobs] == ["m1", "m9", "m2", "m9"]


TAKEN, REFUSED = {"mail": "x"}, {"team": "HTTP 503"}


@pytest.mark.parametrize(
    ("earlier", "later", "sent_again"),
    [
        (Tell("m1", "held", "info", {"takes_back": "warning"}), Tell("m2", "hold_ended", "info", {}), "m2"),
        (
            Tell("m1", "held", "info", {"takes_back": "warning"}),
            Tell("m2", "warning", "warning", {"incident": "i2"}),
            "m2",
        ),
        (
            Tell("m1", "cancelled", "info", {"incident": "i1"}),
            Tell("m2", "warning", "warning", {"incident": "i2"}),
            "m2",
        ),
        (Tell("m1", "unknown_alarm", "critical", {}), Tell("m2", "unknown_recovered", "info", {}), "m2"),
        (Tell("m1", "preflight_refused", "critical", {}), Tell("m2", "preflight_passed", "info", {}), "m2"),
        (Tell("m1", "deadline_ahead", "warning", {}), Tell("m2", "deadline_extended", "info", {}), "m2"),
        (Tell("m1", "failed", "critical", {"incident": "i1"}), Tell("m2", "held", "info", {}), "m1"),
        (Tell("m1", "unknown_alarm", "critical", {}), Tell("m2", "warning", "warning", {"incident": "i2"}), "both"),
        (
            Tell("m1", "outcome_unknown", "critical", {"incident": "i1"}),
            Tell("m2", "warning", "warning", {"incident": "i2"}),
            "both",
        ),
        (
            Tell("m1", "outcome_unknown", "critical", {"incident": "i1"}),
            Tell("m2", "closed", "info", {"incident": "i1"}),
            "m2",
        ),
    ],
)
def test_of_what_contradicts_itself_only_the_last_is_sent_again(earlier: Tell, later: Tell, sent_again: str) -> None:
    """A channel that comes back reads how it stands, never what was so before, whichever incident it belonged to."""
    crew = Crew()
    crew.told(earlier, NOW, TAKEN, REFUSED)
    crew.told(later, NOW + 5.0, TAKEN, REFUSED)
    for moment in (61.0, 66.0):
        crew.workers.late(NOW + moment)
        if len(crew.port.jobs) > 2:
            crew.answers(NOW + moment, {"team": "Slack"}, {})
    again = [job["message"]["id"] for job in crew.port.jobs[2:]]
    assert again == {"both": ["m1", "m2"]}.get(sent_again, [sent_again])


SET = [0.0, 3600.0, -86400.0]
"""By so much the date is set between two tries."""


@pytest.mark.parametrize("shift", SET)
@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("countdown", {"incident": "i1", "due_in_seconds": 100.0, "due_wall": 1.7e9 + 100.0}),
        ("notice", {"due_in_seconds": 100.0, "wall": 1.7e9}),  # as a cloud announces it
        ("notice", {"due_in_seconds": 100.0}),
    ],
)
def test_what_is_sent_again_says_how_long_it_is_until_then(kind: str, facts: dict[str, object], shift: float) -> None:
    """Not how long it was at the first try; and what is over by then is not announced any more, whatever the date says."""
    crew = Crew()
    crew.told(Tell("m1", kind, "warning", facts), NOW, TAKEN, REFUSED)
    crew.port.wall += 60.0 + shift
    crew.workers.late(NOW + 60.0)
    said = crew.port.jobs[-1]["message"]["facts"]
    assert (said["due_in_seconds"], said["wall"]) == (40.0, crew.port.wall)
    assert said.get("due_wall", crew.port.wall + 40.0) == crew.port.wall + 40.0
    crew.answers(NOW + 61.0, {}, REFUSED)
    crew.port.wall += 120.0 - 2.0 * shift
    crew.workers.late(NOW + 181.0)
    assert len(crew.port.jobs) == 2
    assert crew.port.journal[-1].endswith("team: not sent again, its time is over")


@pytest.mark.parametrize("shift", SET)
def test_what_waits_over_an_end_of_the_guard_is_as_old_as_it_is(shift: float) -> None:
    """The next guard of the boot knows when it was written."""
    crew, after = Crew(), Crew()
    crew.told(Tell("m1", "notice", "critical", {"due_in_seconds": 100.0}), NOW, TAKEN, REFUSED)
    after.port.wall += shift
    after.workers.resume(crew.left(), NOW + 30.0)
    after.workers.late(NOW + 90.0)
    assert after.port.jobs[-1]["message"]["facts"]["due_in_seconds"] == 10.0


def test_a_lease_ends_at_its_date() -> None:
    """It is the only moment that somebody named by the clock: one that is set brings it nearer."""
    lease = Tell(
        "m1", "deadline_ahead", "warning", {"limit": "lease", "due_in_seconds": 7200.0, "due_wall": 1.7e9 + 7200.0}
    )
    crew = Crew()
    crew.told(lease, NOW, TAKEN, REFUSED)
    crew.port.wall += 3660.0
    crew.workers.late(NOW + 60.0)
    said = crew.port.jobs[-1]["message"]["facts"]
    assert (said["due_in_seconds"], said["due_wall"]) == (3540.0, 1.7e9 + 7200.0)


@pytest.mark.parametrize("shift", SET)
@pytest.mark.parametrize(("passed", "left"), [(40.0, 60.0), (101.0, None)])
def test_what_an_earlier_guard_had_to_tell_is_told_while_it_is_so(
    passed: float, left: float | None, shift: float
) -> None:
    """The guard that announced the end of a Spot machine was killed: the next one says how long it is now, or nothing."""
    crew = Crew()
    crew.port.wall += passed + shift
    facts = {"due_in_seconds": 100.0, "wall": 1.7e9, "told_again": True, "told_at": NOW}
    outcome = begin(crew.workers, Tell("m1", "notice", "critical", facts), NOW + passed)
    told = [job["message"]["facts"]["due_in_seconds"] for job in crew.port.jobs]
    assert told == ([] if left is None else [left])
    assert (outcome is None) is (left is not None)
    assert outcome is None or (outcome.status, outcome.detail) == ("failed", "not sent again, its time is over")


def test_a_worker_that_hangs_or_cannot_be_started_is_a_try() -> None:
    """It is ended in its time, and the pause grows as after any failure."""
    crew = Crew()
    crew.told(WARNING, NOW, {"mail": "x"}, {"team": "HTTP 503"})
    crew.workers.late(NOW + 60.0)
    late = NOW + 60.0 + time_limits.TELL.killed
    assert crew.workers.deadline == late
    crew.workers.late(late)
    assert crew.port.killed == [2]
    assert crew.workers.deadline == late + 120.0
    crew.port.full = True
    crew.workers.late(late + 120.0)
    assert crew.port.journal[1:] == ["message m1 (warning): team: given up after 3 tries: no room for another process"]


def test_a_service_that_is_away_for_long_fills_no_memory() -> None:
    """The latest messages are kept."""
    crew = Crew()
    for number in range(QUEUE_LIMIT + 5):
        crew.told(Tell(f"m{number}", "kept_up", "critical", {}), NOW, {"mail": "x"}, {"team": "HTTP 503"})
    assert crew.workers._redelivery is not None
    assert [one.job.message.id for one in crew.workers._redelivery._queue] == [
        f"m{n}" for n in range(5, QUEUE_LIMIT + 5)
    ]


def tells(crew: Crew, count: int, now: float, effect: Tell) -> list[str]:
    """The outcomes of so many messages of a kind, each of which arrives."""
    found = []
    for number in range(count):
        outcome = begin(crew.workers, effect._replace(id=f"{effect.kind}{number}"), now)
        if outcome is None:
            crew.answers(now, {"team": "Slack"}, {})
        found.append("sent" if outcome is None else f"{outcome.status}: {outcome.proof}")
    return found


HELD = Tell("h", "held", "info", {})


def test_a_user_who_holds_a_hundred_times_does_not_fill_the_chat() -> None:
    """The terminals get each message, the channels beyond a dozen an hour; the rest comes as one, and a new hour begins."""
    crew = Crew(channels={"team": {"urls": "env:A"}})
    tells(crew, 100, NOW, HELD)
    tells(crew, 15, NOW, Tell("f", "finding", "warning", {}))
    of_users = [["wall", "team"]] * LIMIT + [["wall"]] * (100 - LIMIT)
    assert crew.channels == [*of_users, *[["wall", "team"]] * LIMIT, *[["wall"]] * 3]
    assert crew.workers.deadline == NOW + 3600.0
    crew.workers.late(NOW + 3600.0)
    assert crew.channels[-1] == ["team"]
    assert "88 × held, 3 × finding" in crew.port.jobs[-1]["message"]["facts"]["text"]
    crew.answers(NOW + 3601.0, {"team": "Slack"}, {})
    assert crew.workers.deadline == float("inf")
    tells(crew, 1, NOW + 3602.0, HELD)
    assert crew.channels[-1] == ["wall", "team"]


def stormy(record: Record | None = None) -> Crew:
    """A guard that has kept a hold for the digest of this hour."""
    crew = Crew(channels={"team": {"urls": "env:A"}, "mail": {"urls": "env:B"}})
    crew.workers = Workers(crew.port, crew.workers.config, Jitter("x", attended=False), record, "b007b007-1")  # type: ignore[arg-type] # of a host it uses these
    tells(crew, LIMIT + 1, NOW, HELD)
    return crew


def test_a_digest_that_a_channel_did_not_take_is_sent_to_it_again() -> None:
    """As any other message: with growing pauses, so often and no more; what became of each try is kept."""
    kept: list[tuple[str, object, object, object, int]] = []
    crew = stormy(
        lambda draft, answer, tries: kept.append(
            (draft.kind, dict(answer.reached), dict(answer.failed), dict(answer.answered), tries)
        )
    )
    hour = NOW + 3600.0
    crew.workers.late(hour)
    crew.answers(hour + 1.0, {"mail": "E-Mail"}, {"team": "HTTP 503"}, answered={"mail": 1.7e9, "team": 1.7e9})
    for at in (hour + 61.0, hour + 181.0):
        assert crew.workers.deadline == at
        crew.workers.late(at)
        assert crew.channels[-1] == ["team"]
        crew.answers(at, {}, {"team": "HTTP 503"}, answered={"team": 1.7e9})
    assert crew.workers.deadline == float("inf")
    answered = {"team": 1.7e9}
    assert kept == [
        ("notes", {"mail": "E-Mail"}, {"team": "HTTP 503"}, {"mail": 1.7e9, **answered}, 1),
        ("notes", {}, {"team": "HTTP 503"}, answered, 2),
        ("notes", {}, {"team": "HTTP 503"}, answered, 3),
    ]
    assert [line.partition("): ")[2] for line in crew.port.journal] == [
        "not delivered: team: HTTP 503",
        "team: given up after 3 tries: HTTP 503",
    ]


@pytest.mark.parametrize("saved", ["before", "on its way", "between two tries"])
def test_a_digest_outlives_the_guard(saved: str) -> None:
    """Under one name, whichever guard sends it: a service, and the record of who has taken it, know it by that."""
    crew, hour = stormy(), NOW + 3600.0
    left = crew.left()
    crew.workers.late(hour)
    sent = crew.port.jobs[-1]["message"]
    if saved == "between two tries":
        crew.answers(hour + 1.0, {"mail": "E-Mail"}, {"team": "HTTP 503"})
    left = left if saved == "before" else crew.left()
    after = Crew(channels=crew.workers.config["notify"]["channels"])
    after.workers = Workers(after.port, after.workers.config, Jitter("x", attended=False), None, "b007b007-1")  # type: ignore[arg-type] # of a host it uses these
    after.workers.resume(left, hour + 5.0)
    after.workers.late(hour + 70.0)
    (job,) = after.port.jobs
    assert (job["message"]["id"], job["message"]["facts"]["text"], job["again"]) == (
        sent["id"],
        sent["facts"]["text"],
        True,
    )
    assert sorted(job["channels"]) == (["team"] if saved == "between two tries" else ["mail", "team"])
    after.answers(hour + 71.0, dict.fromkeys(job["channels"], "x"), {})
    assert after.workers.deadline == float("inf")


@pytest.mark.parametrize("local", [[], ["wall"]])
@pytest.mark.parametrize("worker", ["answers", "dies"])
def test_what_is_held_back_names_its_digest(local: list[str], worker: str) -> None:
    """By that the next boot knows what it owes, also where a terminal had the message."""
    crew = Crew(local=local, channels={"team": {"urls": "env:A"}})
    tells(crew, LIMIT, NOW, HELD)
    outcome = begin(crew.workers, HELD, NOW)
    if local:
        child = len(crew.port.jobs)
        answer = (
            wrote(crew.workers, child, json.dumps({"reached": {"wall": "1 terminal"}}).encode(), NOW)
            if worker == "answers"
            else None
        )
        outcome = answer or ended(crew.workers, child, -9, NOW)
    assert outcome is not None
    assert dict(outcome.beside) == {"digest": "-digest100"}


def test_a_digest_that_an_earlier_boot_owes_is_sent_after_a_minute() -> None:
    """Under its own name, by which its record says that it is owed no more; the guard has asked for it at its start."""
    crew = Crew(channels={"team": {"urls": "env:A"}})
    crew.port.remembers = True
    crew.workers.begin(NOW)
    assert crew.port.jobs[-1]["resumed"] is False
    crew.answers(NOW + 1.0, {}, {}, beside={"id": "old-digest7", "digest": "9 messages held back"})
    crew.workers.late(NOW + 60.0)
    assert len(crew.port.jobs) == 1
    assert crew.workers.deadline == NOW + 61.0
    crew.workers.late(NOW + 61.0)
    job = crew.port.jobs[-1]
    message = job["message"]
    assert (job["channels"], message["id"]) == (["team"], "old-digest7")
    assert message["facts"]["text"] == "9 messages held back"
    crew.answers(NOW + 62.0, {"team": "Slack"}, {})
    assert crew.workers.deadline == float("inf")


def test_a_guard_asks_for_no_digest_that_it_still_has_to_send() -> None:
    """The one of its own hour, and those that wait to be sent again."""
    crew = stormy()
    crew.workers.late(NOW + 3600.0)
    tells(crew, 1, NOW + 3601.0, HELD)
    after = Crew(channels=crew.workers.config["notify"]["channels"])
    after.port.remembers = True
    after.workers = Workers(after.port, after.workers.config, Jitter("x", attended=False), None, "b007b007-1")  # type: ignore[arg-type] # of a host it uses these
    after.workers.resume(crew.left(), NOW + 3602.0)
    assert sorted(after.port.jobs[-1]["digests"]) == ["b007b007-digest100", "b007b007-digest3700"]


def test_what_was_on_its_way_to_people_is_counted_once() -> None:
    """The guard that had counted it was killed: the next one tells it in full, whatever else the hour had."""
    crew = Crew(channels={"team": {"urls": "env:A"}})
    tells(crew, LIMIT, NOW, HELD)
    tells(crew, LIMIT, NOW, HELD._replace(facts={"told_again": True, "told_at": NOW}))
    assert crew.channels == [["wall", "team"]] * LIMIT * 2
    assert crew.workers.deadline == float("inf"), "no digest is due"


def test_without_a_channel_beyond_the_machine_no_digest_is_asked_for() -> None:
    """Nobody would get it."""
    crew = Crew(channels={})
    crew.port.remembers = True
    crew.workers.begin(NOW)
    assert crew.port.jobs == []


def test_what_became_of_a_remark_is_kept() -> None:
    """The engine has not asked for it, so no outcome says it."""
    kept: list[tuple[str, object, object]] = []
    crew = stormy(lambda draft, answer, _tries: kept.append((draft.kind, dict(answer.reached), dict(answer.failed))))
    assert crew.workers.remark("clock", "the clock is not set", {}, NOW)
    crew.workers.late(NOW)
    crew.answers(NOW + 1.0, {"team": "Slack"}, {"wall": "nobody", "mail": "HTTP 503"})
    crew.workers.late(NOW + 61.0)
    assert crew.channels[-2:] == [["wall", "team", "mail"], ["mail"]], "a terminal is gone with whoever sat there"
    ended(crew.workers, len(crew.port.jobs), -9, NOW + 62.0)
    assert [kind for kind, *_ in kept] == ["notes", "notes"]
    assert kept[0][1:] == ({"team": "Slack"}, {"wall": "nobody", "mail": "HTTP 503"})
    assert list(kept[1][2]) == ["mail"]  # type: ignore[call-overload] # it is a mapping


def successor(crew: Crew, now: float) -> Crew:
    """The workers of the next guard of the boot."""
    after = Crew(channels=crew.workers.config["notify"]["channels"])
    after.workers.resume(crew.left(), now)
    return after


def test_a_remark_is_made_once_in_a_boot() -> None:
    """A guard that is started again sees the same, and people know it; what was over and is so again they do not."""
    crew = Crew()
    assert crew.workers.remark("clock", "the clock is not set", {}, NOW)
    assert not crew.workers.remark("clock", "the clock is not set", {}, NOW + 5.0)
    crew.workers.late(NOW)
    crew.answers(NOW + 1.0, {"team": "Slack", "mail": "E-Mail"}, {})
    after = successor(crew, NOW + 10.0)
    assert not after.workers.remark("clock", "the clock is not set", {}, NOW + 10.0)
    assert after.workers.deadline == float("inf")
    after.workers.settled("clock")
    assert after.workers.remark("clock", "the clock is not set", {}, NOW + 20.0)


def test_a_remark_outlives_a_guard_that_is_killed_on_the_way() -> None:
    """It belongs to no incident, so the engine would not tell it again; who has taken it is spared by its name."""
    crew = Crew()
    crew.workers.remark("undo-i1", "it may still be drained", {}, NOW)
    crew.workers.late(NOW)
    after = successor(crew, NOW + 1.0)
    after.workers.late(NOW + 70.0)
    sent = [job["message"] for job in (*crew.port.jobs, *after.port.jobs)]
    assert [one["facts"]["text"] for one in sent] == ["it may still be drained"] * 2
    assert sent[0]["id"] == sent[1]["id"]
    assert after.port.jobs[0]["again"]


def test_a_countdown_that_nobody_took_is_told_by_the_engine_alone() -> None:
    """Every two minutes; sent again by the guard, too, people would have it each minute once their chat is back."""
    crew = Crew()
    unheard = Tell("m2", "countdown", "warning", {"incident": "i1", "unreached_tries": 3, "due_in_seconds": 600.0})
    crew.told(unheard, NOW, {}, {"wall": "nobody", "team": "HTTP 503", "mail": "no route"})
    assert crew.workers.deadline == float("inf")
    crew.told(unheard._replace(id="m3"), NOW + 120.0, {"mail": "E-Mail"}, {"team": "HTTP 503"})
    assert crew.workers.deadline == NOW + 180.0, "who alone missed it gets it as ever"


def test_a_further_try_that_asked_nobody_is_none() -> None:
    """Another message found the service busy, which the process of the further try finds written: it asks when it may, as often as any."""
    kept: list[int] = []
    crew = Crew(attempts=2)
    crew.workers = Workers(
        crew.port, crew.workers.config, Jitter("x", attended=False), lambda _draft, _answer, tries: kept.append(tries)  # type: ignore[arg-type] # of a host it uses these
    )  # fmt: skip
    crew.told(WARNING, NOW, {"mail": "x"}, {"team": "HTTP 503"})
    crew.workers.late(NOW + 60.0)
    crew.answers(NOW + 61.0, {}, {"team": "left alone for 90 s more"}, waits={"team": 90.0})
    assert (kept, crew.workers.deadline) == ([], NOW + 151.0)
    crew.workers.late(NOW + 151.0)
    crew.answers(NOW + 152.0, {}, {"team": "HTTP 429"}, waits={"team": 100.0}, answered={"team": 1.7e9})
    assert kept == [2]
    assert crew.port.journal[-1].endswith("team: given up after 2 tries: HTTP 429")


@pytest.mark.parametrize(
    ("earlier", "later", "waits"),
    [
        ("deadline_extended", "deadline_extended", True),
        ("deadline_ahead", "deadline_extended", True),
        ("unknown_alarm", "unknown_recovered", True),
        ("preflight_refused", "preflight_passed", True),
        ("held", "hold_ended", True),
        ("hold_ended", "warning", True),
        ("acting", "done", True),
        ("finding", "held", False),
        ("unknown_alarm", "held", False),
    ],
)
def test_what_people_must_read_first_is_named_to_who_brings_the_next(earlier: str, later: str, waits: bool) -> None:
    """Each message is brought by a process of its own, and one may be slow to start: the last word must be the true one."""
    crew = Crew()
    of_incident = {"incident": "i1"} if {earlier, later} & {"acting", "warning"} else {}
    assert begin(crew.workers, Tell("m1", earlier, "info", {**of_incident, "text": "long"}), NOW) is None
    assert begin(crew.workers, Tell("m2", later, "info", of_incident), NOW + 0.1) is None
    named = crew.port.jobs[1].get("after", [])
    assert [one["message"]["id"] for one in named] == (["m1"] if waits else [])
    assert not waits or (
        named[0]["channels"] == ["wall", "team", "mail"] and "text" not in named[0]["message"].get("facts", {})
    )
    crew.answers(NOW + 1.0, {"team": "x", "mail": "y"}, {})
    wrote(crew.workers, 1, b'{"reached":{"team":"x"}}', NOW + 1.0)
    assert begin(crew.workers, Tell("m3", later, "info", of_incident), NOW + 2.0) is None
    assert "after" not in crew.port.jobs[2], "what has arrived is nobody's concern"


@pytest.mark.parametrize(
    "effect",
    [
        WARNING,
        Tell("m", "unknown_alarm", "critical", {}),
        Tell("m", "cancelled", "info", {}),
        Tell("m", "closed", "info", {}),
    ],
)
def test_what_people_must_hear_is_never_left_out(effect: Tell) -> None:
    """A warning, an alarm, and what became of a warning, however much was sent before."""
    crew = Crew(channels={"team": {"urls": "env:A"}})
    tells(crew, 40, NOW, HELD)
    tells(crew, 40, NOW, effect)
    assert crew.channels[-40:] == [["wall", "team"]] * 40


def test_without_a_channel_of_this_machine_the_digest_counts_as_delivered() -> None:
    """No process is started for a message that nobody gets now, and the engine does not repeat it."""
    crew = Crew(local=[], channels={"team": {"urls": "env:A"}})
    assert tells(crew, LIMIT + 1, NOW, HELD) == ["sent"] * LIMIT + ["delivered: held back for this hour's digest"]
    assert len(crew.port.jobs) == LIMIT


def test_a_new_hour_begins_by_itself() -> None:
    """A dozen an hour, hour after hour, is no storm."""
    crew = Crew(channels={"team": {"urls": "env:A"}})
    for hour in range(5):
        tells(crew, LIMIT, NOW + hour * 3600.0, HELD)
    assert crew.channels == [["wall", "team"]] * 5 * LIMIT


def test_a_machine_without_channels_counts_nothing() -> None:
    """Terminals are not limited here."""
    crew = Crew(channels={})
    tells(crew, 40, NOW, HELD)
    assert crew.channels == [["wall"]] * 40
    assert crew.workers.deadline == float("inf")


def held_back(kind: str, crew: Crew, now: float, mode: str = "dry-run", level: str = "info") -> bool:
    """Whether this message of a machine stays on it."""
    before = len(crew.port.jobs)
    begin(crew.workers, Tell(f"m{now}", kind, level, {"mode": mode}), now)
    return crew.channels[before:] == [["wall"]]


def test_a_dry_run_says_once_a_day_what_would_have_been_done() -> None:
    """Its countdowns stay on the machine; whatever needs a look leaves it, and live mode tells all."""
    crew = Crew(dry_run="few")
    assert [held_back(kind, crew, NOW) for kind in ("warning", "cancelled", "countdown")] == [True] * 3
    assert not held_back("would_act", crew, NOW)
    assert held_back("would_act", crew, NOW + 80000.0)
    assert not held_back("would_act", crew, NOW + 86500.0)
    assert not held_back("unknown_alarm", crew, NOW, level="critical")
    assert not held_back("warning", crew, NOW, mode="live")
    assert not held_back("warning", Crew(dry_run="all"), NOW)


def test_what_was_announced_in_live_mode_is_taken_back_in_any_mode() -> None:
    """Else the last thing that people have read is a stop that does not come."""
    crew = Crew(dry_run="few")
    before = len(crew.port.jobs)
    begin(crew.workers, Tell("m1", "cancelled", "info", {"mode": "dry-run", "announced_live": True}), NOW)
    (channels,) = crew.channels[before:]
    assert {"mail", "team"} <= set(channels)


def test_what_a_dry_run_announced_is_taken_back_where_it_was() -> None:
    """Its countdown stayed on the machine: a channel would read of a stop that nobody told it of."""
    crew = Crew(dry_run="few")
    before = len(crew.port.jobs)
    begin(crew.workers, Tell("m1", "cancelled", "info", {"mode": "live", "announced_dry": True}), NOW)
    assert crew.channels[before:] == [["wall"]]


def test_what_nobody_is_left_for_counts_as_delivered() -> None:
    """The engine must not repeat what was held back on purpose."""
    crew = Crew(dry_run="few", local=[])
    outcome = begin(crew.workers, Tell("m1", "warning", "warning", {"mode": "dry-run"}), NOW)
    assert outcome is not None
    assert (outcome.status, "summary" in outcome.proof) == ("delivered", True)


@pytest.mark.parametrize(("reached", "failed"), [({"team": "Slack"}, {}), ({}, {"team": "HTTP 500"})])
def test_what_became_of_a_message_that_was_sent_again_is_kept(reached: dict[str, str], failed: dict[str, str]) -> None:
    """For the history: which channel, at which try."""
    kept: list[tuple[str, object, object, int]] = []
    crew = Crew()
    crew.workers = Workers(
        crew.port,  # type: ignore[arg-type] # of a host it uses these
        CONFIG,
        Jitter("x", attended=False),
        lambda draft, answer, tries: kept.append((draft.id, dict(answer.reached), dict(answer.failed), tries)),
    )
    crew.told(WARNING, NOW, {"mail": "x"}, {"team": "HTTP 503"})
    crew.workers.late(NOW + 60.0)
    crew.answers(NOW + 61.0, reached, failed)
    assert kept == [("m1", reached, failed, 2)]


def test_a_fleet_does_not_write_at_the_same_second() -> None:
    """Each machine waits for a time of its own, never longer than a twentieth of `grace`; what a person did waits for nothing."""
    config = {"providers": ["x=y"], "cloud": {"spread": 1200.0}, "policy": {"grace": 600.0}}
    warning, acting = Tell("m", "warning", "warning", {}), Tell("m", "acting", "critical", {})
    waits = [Jitter(f"i-{n}", attended=False).before_message(warning, config) for n in range(1000)]
    assert max(waits) < 10.0
    assert max(sum(second <= wait < second + 1.0 for wait in waits) for second in range(10)) < 150
    short = {**config, "policy": {"grace": 20.0}}
    assert max(Jitter(f"i-{n}", attended=False).before_message(warning, short) for n in range(100)) < 1.0
    assert Jitter("i-1", attended=False).before_message(acting, config) == 0.0
    assert Jitter("i-1", attended=True).before_message(warning, config) == 0.0
    assert Jitter("i-1", attended=False).before_message(warning, {**config, "cloud": {"spread": 0.0}}) == 0.0


@pytest.mark.parametrize(
    "kind", ["cancelled", "countdown", "deadline_passed", "unknown_recovered", "failed", "reminder"]
)
def test_whatever_befalls_a_fleet_at_once_is_spread(kind: str) -> None:
    """Also on machines whose cloud has no plug-in, or that stand in a room; not what a person asked for."""
    config = {"providers": [], "cloud": {"spread": 1200.0}, "policy": {"grace": 600.0}}
    own, asked = Tell("m", kind, "info", {"reason": "idle"}), Tell("m", kind, "info", {"reason": "person"})
    waits = [Jitter(f"i-{n}", attended=False).before_message(own, config) for n in range(200)]
    assert max(waits) - min(waits) > 8.0
    assert Jitter("i-1", attended=False).before_message(asked, config) == 0.0


def test_what_a_person_did_waits_for_nothing_and_brings_what_it_changes_on_its_way() -> None:
    """A fleet's messages leave some seconds later, and who moves the deadline is told at once: the old date must not be the last word."""
    crew = Crew()
    crew.workers.config = IN_FLEET
    assert begin(crew.workers, Tell("m1", "deadline_ahead", "warning", {}), NOW) is None
    assert begin(crew.workers, Tell("m2", "deadline_extended", "info", {}), NOW + 1.0) is None
    assert begin(crew.workers, Tell("m3", "armed", "info", {}), NOW + 1.0) is None
    first, *others = [job.get("pause", 0.0) for job in crew.port.jobs]
    assert 0.5 < first < 10.0
    assert others == [0.0, 0.0]
    assert crew.port.hurried == [1]


def test_what_befalls_a_fleet_at_once_hurries_nothing() -> None:
    """A thousand warnings wait for their turns when what they announced is called off everywhere: none leaves before its turn."""
    crew = Crew()
    crew.workers.config = IN_FLEET
    assert begin(crew.workers, Tell("m1", "warning", "warning", {"incident": "i1"}), NOW) is None
    assert begin(crew.workers, Tell("m2", "cancelled", "info", {"incident": "i1"}), NOW + 1.0) is None
    warned, cancelled = [job.get("pause", 0.0) for job in crew.port.jobs]
    assert 0.0 < warned <= cancelled < 10.0
    assert (crew.port.stopped, crew.port.hurried) == ([1], [])


def test_what_was_held_back_on_purpose_is_no_failure() -> None:
    """Nobody sits at a terminal, and the channel was not asked: the engine must neither repeat it nor wait for longer."""
    crew = Crew(dry_run="few")
    assert begin(crew.workers, Tell("m1", "warning", "warning", {"mode": "dry-run"}), NOW) is None
    outcome = wrote(crew.workers, 1, json.dumps({"failed": {"wall": "nobody is there"}}).encode(), NOW + 1.0)
    assert outcome is not None
    assert (outcome.status, "summary" in outcome.proof) == ("delivered", True)


def test_users_who_write_much_silence_nothing_of_the_machine() -> None:
    """Their messages have a dozen of their own; what became of a warning is always told."""
    crew = Crew()
    tells(crew, 100, NOW, HELD)
    for kind in ("unknown_recovered", "done", "came_back", "closed"):
        assert tells(crew, 1, NOW, Tell("x", kind, "info", {})) == ["sent"]
        assert crew.channels[-1] == ["wall", "team", "mail"]
    tells(crew, 1, NOW, Tell("h", "held", "info", {"takes_back": "warning"}))
    assert crew.channels[-1] == ["wall", "team", "mail"], "a hold that ended a countdown"
    tells(crew, 1, NOW, HELD)
    assert crew.channels[-1] == ["wall"]


def test_a_message_leaves_at_once_and_names_all_that_is_before_it() -> None:
    """However many are on their way: each address waits for what it lacks itself. What is about something else is not named."""
    crew = Crew()
    of_incident = ("warning", "held", "acting", "accepted", "stopping", "finding", "unknown_alarm", "done")
    for number, kind in enumerate(of_incident):
        facts = {} if kind == "unknown_alarm" else {"overtakes" if kind == "held" else "incident": "i1"}
        assert begin(crew.workers, Tell(f"m{number}", kind, "warning", facts), NOW) is None
    assert [job.get("pause", 0.0) for job in crew.port.jobs] == [0.0] * len(of_incident)
    last = crew.port.jobs[-1]
    assert [one["message"]["kind"] for one in last["after"]] == ["warning", "held", "acting", "accepted", "stopping"]
    assert "after" not in crew.port.jobs[5], "a finding is a matter of its own"


@pytest.mark.parametrize("kind", ["acting", "unguarded"])
def test_what_may_be_the_last_message_waits_for_no_other(kind: str) -> None:
    """The machine may be off before those on their way have arrived."""
    crew = Crew()
    for number, before in enumerate(("warning", "held", "hold_ended", "warning")):
        facts = {"overtakes" if before in {"held", "hold_ended"} else "incident": "i1"}
        assert begin(crew.workers, Tell(f"m{number}", before, "warning", facts), NOW + number / 10.0) is None
    assert begin(crew.workers, Tell("m9", kind, "critical", {"incident": "i1"}), NOW + 1.0) is None
    *_, second_last, last = crew.port.jobs
    assert second_last["after"]
    assert (last.get("pause", 0.0), last.get("after")) == (0.0, None)


def test_what_a_dry_run_tells_once_a_day_is_tried_again_until_somebody_has_it() -> None:
    """The engine repeats what nobody took: a further try is no second message. Another incident is."""
    crew = Crew(dry_run="few", local=[])
    would = Tell("m1", "would_act", "info", {"mode": "dry-run", "incident": "i1"})
    crew.told(would, NOW, {}, {"team": "HTTP 503", "mail": "no route"})
    assert begin(crew.workers, would._replace(id="m2"), NOW + 10.0) is None
    assert crew.channels == [["team", "mail"]] * 2
    other = begin(crew.workers, would._replace(id="m3", facts={"mode": "dry-run", "incident": "i2"}), NOW + 20.0)
    assert other is not None
    assert "summary" in other.proof


def test_a_hold_overtakes_the_warning_that_it_ended() -> None:
    """Whoever has not got the warning yet is not told of a stop that will not come; nor if that is found out only afterwards."""
    for late in (False, True):
        crew = Crew()
        warning = Tell("w", "warning", "warning", {"incident": "i1"})
        held = Tell("h", "held", "info", {"takes_back": "warning", "overtakes": "i1"})
        if late:
            begin(crew.workers, warning, NOW)
            begin(crew.workers, held, NOW + 1.0)
            answer = json.dumps({"reached": {"team": "x"}, "failed": {"mail": "HTTP 503"}}).encode()
            wrote(crew.workers, 1, answer, NOW + 2.0)
            ended(crew.workers, 1, 0, NOW + 2.0)
        else:
            crew.told(warning, NOW, {"team": "x"}, {"mail": "HTTP 503"})
            begin(crew.workers, held, NOW + 1.0)
        sent = len(crew.channels)
        crew.workers.late(NOW + 100.0)
        assert len(crew.channels) == sent, "the warning is not sent again"


def test_a_terminal_is_not_the_team() -> None:
    """Where channels beyond the machine were asked and none took a warning, it counts as undelivered, whoever sits there."""
    crew = Crew()
    begin(crew.workers, WARNING, NOW)
    outcome = wrote(
        crew.workers, 1, b'{"reached":{"wall":"1 terminal"},"failed":{"team":"HTTP 500","mail":"HTTP 500"}}', NOW
    )
    assert outcome is not None
    assert (outcome.status, outcome.proof) == ("failed", "wall: 1 terminal")
    assert "team: HTTP 500" in outcome.detail
    begin(crew.workers, WARNING._replace(id="m2"), NOW)
    outcome = wrote(crew.workers, 2, b'{"reached":{"mail":"E-Mail"},"failed":{"team":"HTTP 500"}}', NOW)
    assert outcome is not None
    assert outcome.status == "delivered"


def test_a_terminal_that_nobody_replaced_by_a_channel_counts() -> None:
    """On a machine without channels beyond it, and where none of them takes such a message, it is all that there is."""
    crew = Crew(channels={})
    begin(crew.workers, WARNING, NOW)
    outcome = wrote(crew.workers, 1, b'{"reached":{"wall":"1 terminal"},"failed":{}}', NOW)
    assert outcome is not None
    assert outcome.status == "delivered"
    crew = Crew()
    begin(crew.workers, WARNING, NOW)
    outcome = wrote(crew.workers, 1, b'{"reached":{"wall":"1 terminal"},"failed":{}}', NOW)
    assert outcome is not None
    assert outcome.status == "delivered"


@pytest.mark.parametrize(
    ("effect", "again"),
    [
        (WARNING, False),
        (WARNING._replace(facts={"incident": "i1", "attempts": 2}), True),
        (Tell("m1", "countdown", "warning", {"incident": "i1"}), False),
        (Tell("m1", "countdown", "warning", {"incident": "i1", "unreached_tries": 3}), True),
        (Tell("m1", "acting", "warning", {"incident": "i1", "unreached_tries": 3}), False),
    ],
)  # fmt: skip
def test_a_further_try_spares_who_has_taken_the_first(effect: Tell, again: bool) -> None:
    """What is news goes to everybody."""
    crew = Crew()
    begin(crew.workers, effect, NOW)
    assert crew.port.jobs[0].get("again", False) is again


def test_a_service_that_wants_to_be_left_alone_is() -> None:
    """By the same message; others find it written where each delivery looks."""
    crew = Crew()
    begin(crew.workers, WARNING, NOW)
    crew.answers(NOW, {"mail": "E-Mail"}, {"team": "HTTP 429"}, waits={"team": 300.0}, answered={"team": 1.7e9})
    assert crew.workers.deadline == NOW + 300.0
    crew.workers.late(NOW + 300.0)
    assert (crew.channels[1], crew.port.jobs[1]["again"]) == (["team"], True)


def test_who_asks_for_a_longer_pause_holds_up_nobody_else() -> None:
    """One service that wants a quarter of an hour, and a warning of ten minutes: the others have it after a minute."""
    crew = Crew(channels={name: {"urls": "env:A"} for name in ("chat", "team", "mail")})
    begin(crew.workers, WARNING, NOW)
    crew.answers(NOW, {"chat": "Slack"}, {"team": "HTTP 429", "mail": "HTTP 500"}, waits={"team": 900.0})
    crew.workers.late(NOW + 60.0)
    assert crew.channels[1:] == [["mail"]]
    crew.answers(NOW + 61.0, {"mail": "E-Mail"}, {})
    assert crew.workers.deadline == NOW + 900.0
    crew.workers.late(NOW + 900.0)
    assert crew.channels[2:] == [["team"]]


def test_an_address_that_failed_beside_another_one_of_its_channel_gets_it_later() -> None:
    """The worker knows which one has it."""
    crew = Crew()
    crew.told(WARNING, NOW, {"team": "Slack"}, {"team": "JSON: HTTP 500"})
    crew.workers.late(NOW + 60.0)
    assert crew.channels[1:] == [["team"]]


def test_a_guard_that_begins_anew_counts_on() -> None:
    """A machine whose agent restarts every few minutes writes no more often than another one."""
    first = Crew(dry_run="few")
    would = Tell("m1", "would_act", "warning", {"incident": "i1", "mode": "dry-run"})
    first.told(would, NOW, {"team": "Slack"}, {})
    for number in range(LIMIT + 3):
        begin(first.workers, Tell(f"h{number}", "held", "info", {"mode": "live"}), NOW)
    second = Crew(dry_run="few")
    second.workers.resume(first.left(), NOW)
    begin(second.workers, would._replace(id="m2", facts={"incident": "i2", "mode": "dry-run"}), NOW + 60.0)
    begin(second.workers, Tell("h99", "held", "info", {"mode": "live"}), NOW + 60.0)
    assert second.channels == [["wall"], ["wall"]]
    assert second.workers.deadline <= NOW + 3600.0, "the digest of the first one is still due"


@pytest.mark.parametrize(
    "told",
    [None, 7, [1, 2], {}, {"counted": 7}, {"counted": [1, 2]}, {"counted": {"began": 0.0}}, {"waiting": 7}, {"waiting": [7]},
     {"counted": None, "waiting": [{"message": {}}]}, "x"],
)  # fmt: skip
def test_what_was_counted_and_cannot_be_read_is_nothing(told: object) -> None:
    """A guard that begins with it writes as if it were the first one."""
    crew = Crew()
    crew.workers.resume(told, NOW)
    assert crew.workers.deadline == float("inf")
    begin(crew.workers, Tell("h1", "held", "info", {"mode": "live"}), NOW)
    assert crew.channels == [["wall", "team", "mail"]]


@pytest.mark.parametrize(
    "later",
    [
        Tell("m2", "cancelled", "info", {"incident": "i1", "mode": "live"}),
        Tell("m2", "held", "info", {"overtakes": "i1", "takes_back": "warning", "mode": "live"}),
    ],
)
def test_the_last_word_is_what_came_last(later: Tell) -> None:
    """A warning waits up to ten seconds for its turn in a fleet: what ends the countdown meanwhile leaves after it."""
    crew = Crew()
    crew.workers.config = IN_FLEET
    begin(crew.workers, Tell("m1", "warning", "warning", {"incident": "i1", "mode": "live"}), NOW)
    leaves = crew.port.jobs[0]["pause"]
    assert leaves > 1.0
    begin(crew.workers, later, NOW + 1.0)
    second = crew.port.jobs[1]
    assert [one["message"]["id"] for one in second["after"]] == ["m1"]
    assert 1.0 + second.get("pause", 0.0) >= leaves or crew.port.hurried == [1]


def test_who_reads_last_whether_somebody_holds_the_machine_reads_what_is_so() -> None:
    """A hold that ended a countdown is read after the warning, its release after that, and the next warning after both."""
    crew = Crew()
    warned = Tell("m1", "warning", "warning", {"incident": "i1", "mode": "live"})
    held = Tell("m2", "held", "info", {"overtakes": "i1", "takes_back": "warning", "mode": "live"})
    released = Tell("m3", "hold_ended", "info", {"hold": "released", "mode": "live"})
    anew = Tell("m4", "warning", "warning", {"incident": "i2", "mode": "live"})
    for number, one in enumerate((warned, held, released, anew)):
        begin(crew.workers, one, NOW + 0.1 * number)
    named = [[one["message"]["id"] for one in job.get("after", ())] for job in crew.port.jobs]
    assert named == [[], ["m1"], ["m1", "m2"], ["m1", "m2", "m3"]]


@pytest.mark.parametrize(
    ("later", "stopped"),
    [
        (Tell("m2", "cancelled", "info", {"incident": "i1"}), True),
        (Tell("m2", "held", "info", {"overtakes": "i1"}), True),
        (Tell("m2", "finding", "info", {}), False),
        (Tell("m2", "unknown_alarm", "critical", {}), False),
    ],
)
def test_what_is_on_its_way_is_tried_no_more_once_it_is_not_so(later: Tell, stopped: bool) -> None:
    """Its service may fail for half a minute: people would read last that a stop comes which was taken back."""
    crew = Crew()
    assert begin(crew.workers, WARNING, NOW) is None
    assert begin(crew.workers, later, NOW + 1.0) is None
    assert crew.port.stopped == [1] * stopped


def test_what_is_sent_again_is_tried_no_more_once_it_is_not_so() -> None:
    """The same for the process of a further delivery, which nothing else waits for."""
    crew = Crew()
    crew.told(WARNING, NOW, {"mail": "SMTP"}, {"team": "HTTP 503"})
    crew.workers.late(NOW + 61.0)
    assert len(crew.port.jobs) == 2
    assert begin(crew.workers, Tell("m2", "cancelled", "info", {"incident": "i1"}), NOW + 62.0) is None
    assert crew.port.stopped == [2]


def stands_for(job: dict[str, Any]) -> list[str]:
    """The kinds of the messages in whose place it is sent."""
    return [row[1] for row in job["message"].get("facts", {}).get("stands_for", ())]


def test_what_ends_the_tries_of_another_message_stands_for_it() -> None:
    """On its way, waiting for its next try, or in whose place the other one was: a channel that asked for that alone must hear something."""
    crew = Crew()
    acting = Tell("m1", "acting", "warning", {"incident": "i1"})
    accepted = Tell("m2", "accepted", "warning", {"incident": "i1"})
    assert begin(crew.workers, acting, NOW) is None
    assert begin(crew.workers, accepted, NOW + 1.0) is None
    assert stands_for(crew.port.jobs[1]) == ["acting"]
    crew.answers(NOW + 2.0, TAKEN, REFUSED)
    assert begin(crew.workers, Tell("m3", "done", "info", {"incident": "i1"}), NOW + 3.0) is None
    assert sorted(stands_for(crew.port.jobs[2])) == ["accepted", "acting"]
    assert begin(crew.workers, Tell("m4", "finding", "warning", {}), NOW + 3.0) is None
    assert stands_for(crew.port.jobs[3]) == []


@pytest.mark.parametrize("earlier", ["closed", "came_back", "cancelled"])
def test_that_a_machine_begins_to_work_makes_nothing_untrue(earlier: str) -> None:
    """The message that it was stopped and is back, which no service took as the machine booted, is sent again."""
    crew = Crew()
    crew.told(Tell("m1", earlier, "info", {"incident": "i1"}), NOW, TAKEN, REFUSED)
    crew.told(Tell("m2", "armed", "info", {}), NOW + 5.0, TAKEN, REFUSED)
    crew.workers.late(NOW + 61.0)
    assert crew.port.jobs[-1]["message"]["id"] == "m1"


@pytest.mark.parametrize("incident", ["i1", "i2"])
def test_what_was_lost_while_another_incident_began_is_sent_again(incident: str) -> None:
    """Its worker answers only then: whether a later word of the same story is out is known by the incident, too."""
    crew = Crew()
    assert begin(crew.workers, Tell("m1", "outcome_unknown", "critical", {"incident": "i1"}), NOW) is None
    assert begin(crew.workers, Tell("m2", "warning", "warning", {"incident": incident}), NOW + 1.0) is None
    answer = json.dumps({"reached": TAKEN, "failed": REFUSED}).encode()
    wrote(crew.workers, 1, answer, NOW + 2.0)
    crew.workers.late(NOW + 70.0)
    assert [job["message"]["id"] for job in crew.port.jobs[2:]] == ["m1"] * (incident == "i2")
