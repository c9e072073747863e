"""What senses see reaches the decision: as vetoes, in words, within two ticks; what they cannot see does so too."""

import functools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from costguard.agent.host_side import LOOKS_LEFT_OUT, HostSide, sentence
from costguard.agent.loop import BUSY_TICKS_PER_LOOK, Loop
from costguard.engine.observation import Veto
from costguard.host.ports import Instant, Line, Unwatched
from costguard.readers.host.sense import Activity, Sight
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, effective, sensing

INTERVAL = 10.0
ANN = ("ann on pts/3", "typed")
RULES: dict[str, Any] = {
    "interval": INTERVAL, "kill_duration": 600.0, "arm_duration": None, "mode": "live", "boot_grace": 0.0, "grace": 120.0,
    "kill_action": "command", "unused_after": None,
}  # fmt: skip


class Heard(Watch):
    """What happened and when."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, dict[str, Any]]] = []
        self.released_at: list[float] = []
        self.looks: list[float] = []
        self.lines: list[str] = []
        self.blind_at: list[float] = []  # when the journal had that nobody can be seen
        self.reports: list[dict[str, Any]] = []
        self.started_programs: list[str] = []

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        self.told.append((now.mono, message["kind"], message["facts"]))

    def released(self, now: Instant, job: dict[str, Any]) -> None:
        self.released_at.append(now.mono)

    def sensed(self, now: Instant, senses: Mapping[str, Sight]) -> None:
        self.looks.append(now.mono)

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)
        if line.startswith("<3>cannot tell whether anyone is at work"):
            self.blind_at.append(now.mono)

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        self.started_programs.append(program)

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        said = json.loads(answer)
        if "sentence" in said:
            self.reports.append(said)

    def times(self, kind: str) -> list[float]:
        return [at for at, told, _ in self.told if told == kind]


class Faulty(Faults):
    """The host reader goes wrong in this way between two moments."""

    def __init__(self, word: str, begin: float, end: float) -> None:
        self._word, self._begin, self._end = word, begin, end

    def take(self, subject: str, host: SimHost) -> str:
        return self._word if subject == "host" and self._begin <= host.now < self._end else ""


class Told:
    """One machine whose GPU works for ten minutes and is idle from then on."""

    def __init__(
        self,
        *,
        until: float = 4000.0,
        required: bool = True,
        faults: Faults | None = None,
        seed: int = 5,
        **policy: Any,
    ) -> None:
        self.heard = Heard()
        script = [Phase(600.0, 0.9), Phase(9**9, 0.0)]
        self.host = SimHost(Machine(script=script), seed=seed, until=until, watch=self.heard, faults=faults)
        config = sensing(effective(**{**RULES, **policy}), "terminals", required=required)
        self.loop = Loop(self.host, config, self.host.start())
        self.world = self.host.world

    def works(self, since: float, until: float, *who: tuple[str, str]) -> None:
        self.world.at(since, functools.partial(self.world.activities.update, {"terminals": list(who) or [ANN]}))
        self.world.at(until, self.world.activities.clear)

    def asks(self) -> None:
        """Somebody asks for the status."""
        self.host.request(0, {"command": "status"})

    def run(self) -> Heard:
        try:
            self.loop.run()
        except SimOff:
            self.host.die()
        return self.heard


def test_without_anybody_it_is_stopped() -> None:
    """The story that the others change."""
    heard = Told().run()
    (warned,) = heard.times("warning")
    assert 1200.0 <= warned <= 1240.0
    assert len(heard.released_at) == 1


def test_who_works_keeps_it_up_and_lets_go() -> None:
    """No warning while he does; one within two ticks of his end, with the whole countdown."""
    told = Told()
    told.works(700.0, 2500.0)
    heard = told.run()
    (warned,) = heard.times("warning")
    assert 2500.0 <= warned <= 2500.0 + 2 * INTERVAL + 30.0  # messages of a fleet are spread over some seconds
    assert heard.released_at[0] >= warned + 120.0 - 5.0


def test_who_comes_during_the_countdown_ends_it_within_two_ticks() -> None:
    """And is named."""
    told = Told(until=1290.0)
    told.works(1260.0, 9000.0)
    heard = told.run()
    (cancelled,) = heard.times("cancelled")
    assert 1260.0 <= cancelled <= 1260.0 + 2 * INTERVAL + 5.0
    facts = next(facts for _, kind, facts in heard.told if kind == "cancelled")
    assert facts["why"] == "ann on pts/3 typed"
    assert heard.released_at == []


@pytest.mark.parametrize("word", ["hang", "die", "garbage", "blind"])
def test_a_reader_that_cannot_see_holds_and_is_told(word: str) -> None:
    """Of a required sense: nothing acts, the alarm names it, and it ends once that works again."""
    heard = Told(faults=Faulty(word, 650.0, 3000.0), unknown_alarm=300.0, until=5000.0).run()
    (warned,) = heard.times("warning")
    assert warned >= 3000.0
    alarms = heard.times("unknown_alarm")
    assert 1200.0 + 300.0 <= alarms[0] <= 1200.0 + 400.0
    facts = next(facts for _, kind, facts in heard.told if kind == "unknown_alarm")
    assert facts["unknown_senses"][0][0] == "terminals"
    assert len(heard.released_at) == 1, "a reader that works again lets it go"


@pytest.mark.parametrize(
    ("interval", "hangs_from", "seed", "told"),
    [(10.0, 150.0, 5, [175.0, 230.0]), (60.0, 831.0, 33, [925.0])],
)
def test_one_reader_after_the_other_that_hangs_is_ended_in_its_time(
    interval: float, hangs_from: float, seed: int, told: list[float]
) -> None:
    """Five seconds for an answer, half a minute for a first one: not once something else happens, which may be minutes later."""
    heard = Told(
        faults=Faulty("hang", hangs_from, 9000.0), seed=seed, interval=interval, until=hangs_from + 120.0
    ).run()
    assert heard.blind_at[: len(told)] == pytest.approx(told, abs=1.0)


@pytest.mark.parametrize("word", ["hang", "blind"])
def test_what_an_advisory_sense_cannot_see_is_told_and_holds_nothing(word: str) -> None:
    """In the journal and the status; the machine is stopped all the same."""
    heard = Told(faults=Faulty(word, 650.0, 9000.0), required=False).run()
    assert len(heard.released_at) == 1
    assert [
        line
        for line in heard.lines
        if line.startswith("<3>") and ("terminals" in line or "cannot tell whether anyone" in line)
    ]


def test_a_reader_that_hangs_before_the_action_stops_it() -> None:
    """I3: what was seen a countdown ago is not what is."""
    heard = Told(faults=Faulty("hang", 1300.0, 9000.0), until=3000.0).run()
    assert len(heard.times("warning")) >= 1
    assert heard.released_at == []


def test_while_no_decision_is_near_the_guard_is_left_alone() -> None:
    """Of the looks of a machine at work most are no answer, and they are rarer."""
    heard = Told(until=590.0).run()
    assert 4 <= len(heard.looks) <= 590.0 / INTERVAL / BUSY_TICKS_PER_LOOK / (LOOKS_LEFT_OUT - 1) + 5


def test_what_begins_while_the_gpus_rest_is_known_within_two_ticks() -> None:
    """Also right after they worked, when looks were rare."""
    told = Told(until=700.0)
    told.works(625.0, 9000.0)
    told.world.at(625.0 + 2 * INTERVAL + 1.0, told.asks)
    assert told.run().reports[0]["vetoes"] != []


def test_after_an_answer_it_looks_on_in_its_rhythm() -> None:
    """Not from the guard's next tick on, which may leave out a beat: what begins meanwhile would be seen late."""
    told = Told(until=1000.0)
    told.works(925.0, 981.0)
    asked: list[bool] = []
    for at in range(931, 1000, 3):
        told.world.at(float(at), lambda: asked.append(told.loop.host_side.deadline < float("inf")))
    told.run()
    assert all(asked)


def test_in_a_countdown_each_tick_looks_anew() -> None:
    """What has just begun is seen before anything is released."""
    heard = Told().run()
    (warned,), (released,) = heard.times("warning"), heard.released_at
    looks = [at for at in heard.looks if warned + INTERVAL < at <= released]
    assert len(looks) >= (released - warned) / INTERVAL - 2
    assert released - looks[-1] < 1.0


def test_the_status_names_who_since_when_and_what_would_end_it() -> None:
    """Dates, and a sentence."""
    told = Told(until=3000.0)
    told.works(700.0, 9000.0)
    told.world.at(2000.0, told.asks)
    report = told.run().reports[0]
    (sense,) = report["agent"]["senses"]
    (one,) = sense["active"]
    assert (sense["name"], sense["required"], one["who"], one["what"]) == ("terminals", True, *ANN)
    assert one["since"] - report["time"] == pytest.approx(-1300.0, abs=60.0)
    assert one["words"].startswith("ann on pts/3 typed, for 2")
    assert one["words"].endswith("; counts until 30 min of quiet")
    assert report["vetoes"][0]["lets_go"] == "30 min of quiet"
    assert report["sentence"].startswith("ARMED: ann on pts/3 typed; kept up until 30 min of quiet")


def test_a_reload_looks_for_other_things() -> None:
    """A sense that is switched off holds nothing any more, and its reader ends."""
    told = Told(until=2600.0)
    told.works(700.0, 9000.0)
    told.world.configuration = effective(**RULES)
    told.world.at(1500.0, lambda: told.host.signal("HUP"))
    heard = told.run()
    assert len(heard.released_at) == 1
    assert heard.started_programs.count("host") == 1


ACTIVE = ["ann on pts/3", "typed", 5.0, 90.0, "30 min without input", "ann"]


class Side:
    """The guard's side alone, and what it reports."""

    def __init__(self, *names: str, required: bool = True) -> None:
        self.troubles: dict[str, str | Unwatched | None] = {}
        self.host = SimHost(Machine())
        self.side = HostSide(self.host, sensing(effective(), *names, required=required), self.troubles.__setitem__)

    def hears(self, **rows: Any) -> int:
        """The reader answers; the number of its answer."""
        return self.hears_of(rows)

    def hears_of(self, senses: object) -> int:
        """The same with anything as what the senses see."""
        self.side.ask(100.0, INTERVAL, calm=False)
        reader = self.side._reader
        assert reader is not None
        assert reader._asked is not None
        number = reader._asked[0]
        line = json.dumps({"read": number, "senses": senses}).encode()
        self.side.take(Line(reader.child or 0, line), 100.0)
        return number

    def left_alone(self) -> bool:
        """Whether the reader is left to look by itself when no decision is near."""
        self.side.ask(100.0, INTERVAL, calm=True)
        return not self.side.waiting and self.side.deadline > 100.0 + LOOKS_LEFT_OUT * INTERVAL


def test_an_activity_is_a_veto_and_the_same_object_while_it_lasts() -> None:
    """Nothing is computed anew for a tick in which nothing is new."""
    side = Side("terminals")
    side.hears(terminals=[[ACTIVE], "", ""])
    assert side.side.vetoes == (Veto("terminals", "ann on pts/3 typed", lets_go="30 min without input", sense=True),)
    before = side.side.vetoes
    side.hears(terminals=[[[*ACTIVE[:3], 99.0, *ACTIVE[4:]]], "", ""])
    assert side.side.vetoes is before


def test_what_was_said_in_an_answer_that_was_heard_need_not_be_said_again() -> None:
    """One of another number was not heard: the next question is for a whole answer."""
    side = Side("terminals")
    said = side.hears(terminals=[[ACTIVE], "", ""])
    before = side.side.vetoes
    side.hears_of(said)
    assert side.side.vetoes is before
    assert side.left_alone()
    side = Side("terminals")
    said = side.hears(terminals=[[], "", ""])
    side.hears_of(said + 7)
    assert not side.left_alone()


@pytest.mark.parametrize("senses", [True, "1", None, 1.0])
def test_a_number_that_is_none_is_unknown(senses: object) -> None:
    """It stands for no answer."""
    side = Side("terminals")
    side.hears(terminals=[[], "", ""])
    side.hears_of(senses)
    (veto,) = side.side.vetoes
    assert veto.unknown
    assert not side.left_alone()


def test_whether_the_host_is_quiet_has_three_values() -> None:
    """True only if all senses of people and traffic saw nobody; what is not asked is not known."""
    side = Side("terminals", "traffic", "jupyter")
    assert side.side.quiet is None
    for rows, quiet in (
        ({"terminals": [[], "", ""], "traffic": [[], "", ""], "jupyter": [[], "403", ""]}, True),
        ({"terminals": [[], "", ""], "traffic": [[], "not yet seen", ""], "jupyter": [[], "", ""]}, None),
        ({"terminals": [[ACTIVE], "", ""], "traffic": [[], "x", ""], "jupyter": [[], "", ""]}, False),
    ):
        side.hears(**rows)
        assert side.side.quiet is quiet
    assert Side("jupyter").side.quiet is None


@pytest.mark.parametrize(
    "rows",
    [{}, {"terminals": 7}, {"terminals": [[["x"]], "", ""]}, {"terminals": [[[*ACTIVE[:2], float("nan"), *ACTIVE[3:]]], "", ""]},
     {"terminals": [[[*ACTIVE[:2], None, *ACTIVE[3:]]], "", ""]}],
)  # fmt: skip
def test_nonsense_is_unknown(rows: dict[str, Any]) -> None:
    """Never quiet, and told."""
    side = Side("terminals")
    side.hears(**rows)
    (veto,) = side.side.vetoes
    assert veto.unknown
    assert side.troubles["host"]


def test_nothing_that_was_seen_lies_after_now() -> None:
    """Else somebody would count for longer than he works; and nobody begins after he was seen."""
    side = Side("terminals")
    side.hears(terminals=[[[*ACTIVE[:2], 300.0, 400.0, *ACTIVE[4:]]], "", ""])
    (seen,) = side.side.sights["terminals"].active
    assert (seen.since, seen.last) == (100.0, 100.0)


def test_a_sense_that_has_looked_once_is_unknown_and_tells_nobody() -> None:
    """A rate needs two looks."""
    side = Side("traffic")
    side.hears(traffic=[[], "not yet seen", ""])
    assert side.side.vetoes[0].unknown
    assert not side.troubles.get("sense traffic")
    side.hears(traffic=[[], "/proc/net/dev cannot be read", ""])
    assert "/proc/net/dev" in str(side.troubles["sense traffic"])
    side.hears(traffic=[[], "", "no traffic"])
    assert side.troubles["sense traffic"] is None


@pytest.mark.parametrize(
    ("since", "last", "words"),
    [(90.0, 95.0, "ann on pts/3 typed; counts until rest"), (0.0, 10.0, "ann on pts/3 typed 15 min ago; counts until rest"),
     (-9000.0, 900.0, "ann on pts/3 typed, for 3 h; counts until rest"),
     (-300000.0, 0.0, "ann on pts/3 typed 15 min ago, for 3 days; counts until rest")],
)  # fmt: skip
def test_an_activity_is_a_sentence(since: float, last: float, words: str) -> None:
    """How long ago, for how long, and what would end it, in round numbers."""
    now = 100.0 if last == 95.0 else 910.0
    assert sentence(Activity("ann on pts/3", "typed", since, last, "rest", "ann"), now) == words


def test_a_warning_names_who_worked_lately() -> None:
    """Whoever is warned knows whom to ask; who works again is not among them."""
    told = Told()
    told.works(700.0, 2500.0)
    heard = told.run()
    facts = next(facts for _, kind, facts in heard.told if kind == "warning")
    (words,) = facts["lately"]
    assert words.startswith("ann on pts/3 typed")
    assert "counts until" not in words
    side = Side("terminals")
    side.hears(terminals=[[ACTIVE], "", ""])
    side.hears(terminals=[[], "", ""])
    assert side.side.lately(100.0) == ["ann on pts/3 typed, for 1 min"]
    assert side.side.lately(90000.0) == []
    side.hears(terminals=[[ACTIVE], "", ""])
    assert side.side.lately(100.0) == []
    for number in range(20):
        side.hears(terminals=[[[f"u{number}", *ACTIVE[1:]]], "", ""])
    assert len(side.side.lately(100.0)) == 8


@pytest.mark.parametrize("seed", [*range(4), *range(41, 47)])
def test_who_comes_and_goes_begins_no_window_of_the_gpus_anew(seed: int) -> None:
    """What senses see may cross what the GPUs' reader says by itself: a reading that was lost would look like a hole."""
    told, end = Told(seed=seed), 2000.0 + 7.0 * seed
    told.works(700.0, end)
    for begin in range(1400, 1900, 100):
        told.works(begin + seed, begin + 50.0, ANN, ("bob on pts/4", "typed"))
        told.works(begin + 50.1, end)
    holes = []
    for second in range(1250, 2000, 10):
        told.world.at(second + 0.7, lambda: holes.append(told.loop.last.state.tracks[0].since))
    warned = [at for at in told.run().times("warning") if at >= end]
    assert len(set(holes)) == 1, "the GPU rests since it has ended its work"
    assert warned[0] <= end + 5 * INTERVAL
