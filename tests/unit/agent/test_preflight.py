"""Checks that fail for a technical reason, over and over, are told: credentials expire long before they are needed."""

import pytest

from costguard.agent.loop import Loop
from costguard.agent.preflight import DAY_SECONDS, REPORTED_AFTER_SECONDS, Preflight
from costguard.engine.events import Finding, Outcome
from costguard.engine.state import Clocks, Core, Plans
from costguard.host.ports import Instant
from costguard.notify.compose import compose
from costguard.testing.simhost import Faults, SimHost, Watch, effective

CORE = Core("b", "i", Clocks(0.0, 0.0, 0.0), plans=Plans(checking=("c1 stop", "c2 shutdown")))


def failed(at: float, effect: str = "c1") -> Outcome:
    return Outcome(at, effect, "failed", "the credentials have expired")


def test_one_failure_passes() -> None:
    """The network may come up a moment later."""
    preflight = Preflight()
    assert preflight.finding(failed(0.0), CORE) is None
    assert preflight.finding(Outcome(300.0, "c1", "go"), CORE) is None
    assert preflight.finding(failed(REPORTED_AFTER_SECONDS + 10.0), CORE) is None


def test_an_hour_of_failures_is_told_and_then_daily() -> None:
    """With the last words that were heard, and once more when it works again."""
    preflight = Preflight()
    told = [at for at in range(0, int(2 * DAY_SECONDS), 300) if preflight.finding(failed(float(at)), CORE)]
    assert told == [REPORTED_AFTER_SECONDS, REPORTED_AFTER_SECONDS + DAY_SECONDS]
    again = preflight.finding(Outcome(2 * DAY_SECONDS, "c1", "refuse"), CORE)
    assert again is not None
    assert (again.code, again.words) == ("checked", "it cannot be carried out")
    assert preflight.finding(Outcome(2 * DAY_SECONDS + 1.0, "c1", "go"), CORE) is None


def test_what_a_plan_finds_when_it_can_be_made_again_is_told() -> None:
    """Tags that may not be written are more than the news that the plan was made."""
    preflight = Preflight()
    for at in (0.0, REPORTED_AFTER_SECONDS, REPORTED_AFTER_SECONDS + 300.0):
        preflight.finding(failed(at), CORE)
    finding = ("tag_denied", "this machine cannot write its tags", "grant it")
    told = preflight.finding(Outcome(2 * REPORTED_AFTER_SECONDS, "c1", "consequences", findings=(finding,)), CORE)
    assert told is not None
    assert told.code == "tag_denied"


def test_each_action_is_counted_by_itself() -> None:
    """A shutdown that can be checked says nothing of a stop; what is no check says nothing at all."""
    preflight = Preflight()
    preflight.finding(failed(0.0), CORE)
    preflight.finding(Outcome(10.0, "c2", "go"), CORE)
    assert preflight.finding(failed(REPORTED_AFTER_SECONDS, "a9"), CORE) is None
    found = preflight.finding(failed(REPORTED_AFTER_SECONDS), CORE)
    assert isinstance(found, Finding)
    assert "for 1h:" in found.words
    assert "expired" in found.words


DENIED = ("tag_denied", "this machine cannot write its tags", "grant it")


def test_tags_that_may_not_be_written_are_told_at_once_and_daily() -> None:
    """Though the action itself may be carried out; and once more when they can be written."""
    preflight = Preflight()
    checked = Outcome(0.0, "c1", "consequences", findings=(DENIED,))
    times = [float(at) for at in range(0, int(2.5 * DAY_SECONDS), 3600)]
    told = [at for at in times if preflight.finding(checked._replace(at=at), CORE)]
    assert told == [0.0, DAY_SECONDS, 2 * DAY_SECONDS]
    unknown = checked._replace(at=3 * DAY_SECONDS, findings=(("tag_unknown", "the cloud does not answer", ""),))
    assert preflight.finding(unknown, CORE) is None, "it takes nothing back"
    again = preflight.finding(Outcome(3 * DAY_SECONDS, "c1", "go"), CORE)
    assert again is not None
    assert again.code == "tag_allowed"
    assert preflight.finding(Outcome(3 * DAY_SECONDS, "c1", "go"), CORE) is None


def test_people_read_which_tags_and_what_to_do() -> None:
    """In one sentence."""
    found = Preflight().finding(Outcome(0.0, "c1", "go", findings=(DENIED,)), CORE)
    assert found is not None
    text = compose(
        "finding", {"machine": "trainer", "subjects": found.subjects, "code": found.code, "text": found.words}
    )
    assert text.title.startswith("trainer: the tags cannot be written")
    assert "grant it" in text.body


@pytest.mark.parametrize(("code", "words"), [("unchecked", "cannot be checked"), ("checked", "can be checked again")])
def test_people_read_it_as_a_sentence(code: str, words: str) -> None:
    """Of which machine, and what it means."""
    text = compose("finding", {"machine": "trainer", "subjects": ["the plan for stop"], "code": code, "text": "why"})
    assert text.title.startswith(f"trainer: the plan for stop {words}")


class Expired(Faults):
    """No plan can be made."""

    def take(self, subject: str, host: SimHost) -> str:
        return "die" if subject == "plan" else ""


class Ears(Watch):
    """What people hear."""

    def __init__(self) -> None:
        self.kinds: list[tuple[str, str]] = []

    def message(self, now: Instant, message: dict[str, object], delivered: bool) -> None:
        facts = message["facts"]
        assert isinstance(facts, dict)
        self.kinds.append((str(message["kind"]), str(facts.get("code"))))


def test_the_agent_tells_it() -> None:
    """Through the real loop, on a machine whose plans all die."""
    ears = Ears()
    host = SimHost(seed=5, until=3 * 3600.0, watch=ears, faults=Expired())
    Loop(host, effective(mode="live", kill_action="shutdown"), host.start()).run()
    assert ears.kinds.count(("finding", "unchecked")) == 1
