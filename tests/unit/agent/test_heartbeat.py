"""A sign of life from the real loop: regular, spread over a fleet, and only while every reader answers."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from costguard.agent.heartbeat import ENDING, TAG_EVERY_SECONDS
from costguard.agent.jitter import jitter_of
from costguard.agent.loop import Loop
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, effective, sensing

EVERY = 300.0
IDLE = [Phase(9**9, 0.0)]


class Journal(Watch):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def said(self, now: object, line: str) -> None:
        self.lines.append(line)


class Script(Faults):
    """One subject fails in one way between two moments."""

    def __init__(self, subject: str, word: str, since: float, until: float) -> None:
        self.subject, self.word, self.since, self.until = subject, word, since, until

    def take(self, subject: str, host: SimHost) -> str:
        return self.word if subject == self.subject and self.since <= host.world.now < self.until else ""


def live(
    faults: Faults | None = None,
    url: str = "https://beat.example.org/1",
    *,
    tag: bool = False,
    script: Sequence[Phase] = IDLE,
    **policy: Any,
) -> tuple[list[float], Journal, SimHost]:
    """Two hours; the moments of the beats."""
    journal = Journal()
    host = SimHost(Machine(gpus=2, script=script), seed=5, until=7200.0, watch=journal, faults=faults)
    host.world.off_delay = (3000.0, 3000.0)  # a cloud that takes its time to end a machine
    config = {**effective(**policy), "heartbeat": {"url": url, "every": EVERY, "token_file": "", "tag": tag}}
    try:
        Loop(host, config, host.start()).run()
    except SimOff:
        host.die()
    return [at for at, _ in host.world.beats], journal, host


def test_it_beats_at_its_own_time_and_says_who_and_how() -> None:
    """The first comes within one period, at a moment that is this machine's own; then one each period."""
    beats, journal, host = live()
    first = beats[0] - host.world.boot_zero
    assert jitter_of(host.world.instance) * EVERY <= first <= jitter_of(host.world.instance) * EVERY + 40.0
    assert all(EVERY - 5.0 <= b - a <= EVERY + 10.0 for a, b in pairwise(beats))
    assert len(beats) >= 22
    record = host.world.beats[-1][1]
    assert record["kind"] == "heartbeat"
    assert record["instance"] == host.world.instance
    assert record["state"] == "IDLE"
    assert not [line for line in journal.lines if line.startswith("<3>")]


@pytest.mark.parametrize("word", ["hang", "die", "garbage"])
def test_it_stays_away_while_the_reader_does_not_answer(word: str) -> None:
    """That is what it is for: nobody needs to be told by a guard that sees nothing."""
    beats, _journal, _host = live(Script("nvml", word, 2000.0, 5000.0))
    assert not [at for at in beats if 2100.0 < at < 5000.0]
    assert [at for at in beats if at > 5400.0], "it comes back"


def test_a_new_reader_that_answers_is_enough_whatever_it_can_read() -> None:
    """A GPU that is lost is told in other ways, and who ends machines whose guard is silent must not take this one for dead."""
    lost = dict.fromkeys(range(2), "NVML 15: GPU is lost")
    script = [Phase(1500.0, 0.0), Phase(9**9, 0.0, unknown=lost)]
    beats, _journal, _host = live(Script("nvml", "die", 2000.0, 2060.0), script=script)
    assert all(b - a <= EVERY + 100.0 for a, b in pairwise(beats))
    assert beats[-1] > 6800.0


@pytest.mark.parametrize("word", ["hang", "die", "garbage", "fail"])
def test_one_that_cannot_be_sent_is_told_once_and_changes_nothing_else(word: str) -> None:
    """The trouble stands in the journal and the status, until it works again."""
    beats, journal, _host = live(Script("beat", word, 2000.0, 4000.0))
    assert not [at for at in beats if 2000.0 <= at < 4000.0]
    said = [line for line in journal.lines if "heartbeat not sent" in line]
    assert len(said) == 1
    assert said[0].startswith("<3>heartbeat not sent: ")
    assert "<5>heartbeats are sent again" in journal.lines
    decisions = [line for line in journal.lines if line.startswith("<6>")]
    assert decisions == [line for line in live()[1].lines if line.startswith("<6>")]


def test_without_an_address_there_is_none() -> None:
    """Nothing is started for nothing."""
    beats, _journal, _host = live(url="")
    assert beats == []


def tagged(host: SimHost) -> list[float]:
    """When the tag was written."""
    return [at for at, record in host.world.beats if record["tag"]]


def test_the_tag_is_written_more_rarely_than_the_address_is_asked() -> None:
    """Clouds limit changes; the first one comes with the first beat."""
    beats, _journal, host = live(tag=True, mode="live")
    assert tagged(host)[0] == beats[0]
    assert len(beats) >= 22
    assert all(TAG_EVERY_SECONDS - 5.0 <= b - a <= TAG_EVERY_SECONDS + EVERY + 40.0 for a, b in pairwise(tagged(host)))
    assert len(tagged(host)) >= 7
    assert not tagged(live(mode="live")[2])


def test_a_dry_run_writes_no_tag() -> None:
    """The address still hears of it, with the mode; without an address there is nothing to do."""
    beats, _journal, host = live(tag=True, mode="dry-run")
    assert len(beats) >= 22
    assert not tagged(host)
    assert {record["mode"] for _, record in host.world.beats} == {"dry-run"}
    assert live(url="", tag=True, mode="dry-run")[0] == []


def test_the_tag_alone_beats_at_its_own_pace() -> None:
    """Without an address no process is started between."""
    beats, _journal, host = live(url="", tag=True, mode="live")
    assert beats == tagged(host)
    assert all(TAG_EVERY_SECONDS - 5.0 <= b - a <= TAG_EVERY_SECONDS + 40.0 for a, b in pairwise(beats))
    assert beats[0] - host.world.boot_zero <= EVERY + 40.0


def test_the_tag_of_a_machine_that_is_being_ended_is_left_alone() -> None:
    """A cloud may take the change for a newer wish; the address is told all the same."""
    beats, _journal, host = live(tag=True, mode="live", kill_action="stop", boot_grace=600.0, unused_after=900.0)
    ending = [at for at, record in host.world.beats if record["state"] in ENDING]
    assert ending, [(at, record["state"]) for at, record in host.world.beats]
    assert not set(ending) & set(tagged(host))
    assert set(ending) <= set(beats)


@pytest.mark.parametrize("subject", ["cloud", "host"])
def test_a_reload_that_asks_a_reader_no_more_lets_it_beat_again(subject: str) -> None:
    """Nobody would ever hear that the reader that was ended works again, and a backstop took the guard for dead."""
    beat = {"url": "https://beat.example.org/1", "every": EVERY, "token_file": "", "tag": False}
    config = {
        **sensing(effective(), "traffic"),
        "providers": ["simulated=none"],
        "cloud": {"spread": 300.0},
        "heartbeat": beat,
    }
    journal = Journal()
    faults = Script(subject, "die", 0.0, 3600.0)
    host = SimHost(Machine(gpus=1, script=IDLE), seed=5, until=7200.0, faults=faults, watch=journal)
    host.world.configuration = {**effective(), "heartbeat": beat}
    host.world.at(3000.0, lambda: host.signal("HUP"))
    loop = Loop(host, config, host.start())
    loop.run()
    beats = [at for at, _ in host.world.beats]
    assert beats
    assert 3000.0 < beats[0] < 3000.0 + 2 * EVERY
    assert not loop.journal.troubles
    past = [line for line in journal.lines if "no longer watched under the new configuration: " in line]
    assert [line for line in past if "read" in line or "seen" in line], journal.lines
    assert not [line for line in journal.lines if "can be read again" in line or "can be seen again" in line]


@pytest.mark.parametrize("off", [{}, {"url": "https://beat.example.org/1", "every": EVERY, "tag": False}])
def test_a_heartbeat_that_is_switched_off_is_no_trouble(off: dict[str, object]) -> None:
    """`status` and doctor showed for ever that it is not sent."""
    beat = {"url": "https://beat.example.org/1", "every": EVERY, "token_file": "", "tag": False}
    host = SimHost(Machine(gpus=1, script=IDLE), seed=5, until=7200.0, faults=Script("beat", "fail", 0.0, 9**9))
    host.world.configuration = {**effective(), "heartbeat": off}
    host.world.at(3000.0, lambda: host.signal("HUP"))
    loop = Loop(host, {**effective(), "heartbeat": beat}, host.start())
    loop.run()
    assert ("heartbeat" in loop.journal.troubles) is bool(off)
