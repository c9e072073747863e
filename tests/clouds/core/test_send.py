"""Send, look, decide: every row of what a failed request leaves in doubt, without a cloud and without waiting."""

import itertools
import time
from collections.abc import Iterator
from typing import get_args

import pytest

from costguard.cloud.api import CloudError, Sent, Trouble
from costguard.cloud.retry import LEAST_TRY_SECONDS
from costguard.cloud.send import LEAST_LOOK_SECONDS, EndRequest, Look, Repeat, send, unchanged, unsent
from costguard.plans import Plan, PlanFinding, Result

ACCEPTED = Result("accepted", "accepted", "r-1")
RUNS, ENDS = (
    Look("the cloud says running", ends=False),
    Look("the cloud says stopping", ends=True, proof="state stopping"),
)
TROUBLE: dict[Sent, Trouble] = {
    "no": "throttled",
    "hardly": "unreachable",
    "perhaps": "internal",
    "silent": "unreachable",
}

Step = CloudError | Result | Look | None


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock moves by sleeping alone."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 5000.0 + sum(slept))
    return slept


class Cloud:
    """Answers in their order, the last one for ever; ``log`` has what was asked."""

    def __init__(self, sends: list[Step], looks: list[Step] | None = None, *, slow: float = 0.0) -> None:
        self.log: list[str] = []
        self.within: list[float] = []
        self._sends, self._looks = self._answers(sends), self._answers(looks or [RUNS])
        self._slow = slow

    def _answers(self, steps: list[Step]) -> Iterator[Step]:
        return itertools.chain(steps, itertools.repeat(steps[-1]))

    def send(self, left: float) -> Result:
        self.log.append("send")
        self.within.append(left)
        answer = next(self._sends)
        if isinstance(answer, CloudError):
            raise answer
        assert isinstance(answer, Result)
        return answer

    def look(self, within: float) -> Look | None:
        self.log.append("look")
        self.within.append(within)
        time.sleep(self._slow)
        answer = next(self._looks)
        assert answer is None or isinstance(answer, Look)
        return answer

    def asked(self, seconds: float = 10.0, **more: object) -> Result:
        """What became of a request with so many seconds."""
        request = EndRequest("Cloud", self.send, self.look)._replace(**more)  # type: ignore[arg-type] # a field each
        return send(request, time.monotonic() + seconds)


def error(sent: Sent, trouble: Trouble | None = None, wait: float | None = 0.0) -> CloudError:
    return CloudError(trouble or TROUBLE[sent], "words", code="Code", hint="do this", sent=sent, retry_after=wait)


def test_what_is_accepted_is_sent_once() -> None:
    """No look, no pause."""
    cloud = Cloud([ACCEPTED])
    assert cloud.asked() == ACCEPTED
    assert cloud.log == ["send"]


@pytest.mark.parametrize("sent", get_args(Sent))
def test_what_passes_is_sent_again_and_looked_at_before_where_it_may_have_been_heard(sent: Sent) -> None:
    """Also long after: a doubt does not pass with the next error."""
    cloud = Cloud([error(sent), error("no"), ACCEPTED])
    assert cloud.asked() == ACCEPTED
    looks = [] if sent == "no" else ["look"]
    assert cloud.log == ["send", *looks, "send", *looks, "send"]


@pytest.mark.parametrize("sent", ["hardly", "perhaps", "silent"])
def test_a_machine_that_ends_was_heard(sent: Sent) -> None:
    """Nothing is sent again, and the request's own id is the proof; where there is none, what the cloud shows."""
    for number, proof in (("id-1", "id-1"), ("", "state stopping")):
        cloud = Cloud([error(sent)], [ENDS])
        outcome = cloud.asked(id=number)
        assert (outcome.status, outcome.proof, cloud.log) == ("accepted", proof, ["send", "look"])
        assert ENDS.words in outcome.detail
        assert ("the answer was lost" in outcome.detail) is (sent == "silent")


@pytest.mark.parametrize(
    ("sent", "look", "status"),
    [
        *(("no", look, "failed") for look in (RUNS, None)),
        *(("hardly", look, "failed") for look in (RUNS, None)),
        *(("perhaps", look, status) for look, status in ((RUNS, "failed"), (None, "unknown"))),
        *(("silent", look, "unknown") for look in (RUNS, None)),
    ],
)
def test_the_two_levels_of_doubt_at_the_end(sent: Sent, look: Look | None, status: str) -> None:
    """Nobody answered: a machine that runs proves nothing. An answer with trouble: the look decides."""
    outcome = Cloud([error(sent)], [look]).asked(2.0)
    assert (outcome.status, outcome.proof) == (status, "")
    assert "words (Code)" in outcome.detail
    assert outcome.detail.endswith("; do this")
    assert ("nothing was accepted" in outcome.detail) is (status == "failed")


@pytest.mark.parametrize("after", [error("no"), error("perhaps"), error("hardly")])
def test_a_silence_outlives_every_other_answer(after: CloudError) -> None:
    """*Failed* would send the fall-back list on its way."""
    outcome = Cloud([error("silent"), after]).asked(4.0, id="id-1")
    assert outcome.status == "unknown"
    assert "id-1" in outcome.detail
    assert ("an earlier request had no answer" in outcome.detail) is (not after.in_doubt)


def test_a_veto_is_sent_once() -> None:
    """And needs no look."""
    cloud = Cloud([error("no", "refused")])
    assert cloud.asked().status == "refused"
    assert cloud.log == ["send"]


def test_a_veto_because_of_the_machines_state() -> None:
    """Somebody else has ended it: that counts, in words that claim no request of ours."""
    outcome = Cloud([error("hardly", "refused")], [ENDS]).asked()
    assert (outcome.status, outcome.detail) == ("accepted", f"seen stopping: {ENDS.words} (words (Code))")
    for look in (RUNS, None):
        assert Cloud([error("hardly", "refused")], [look]).asked().status == "refused"


def test_a_veto_after_a_silence_proves_nothing_where_nobody_can_look() -> None:
    """A machine that is being deleted loses its rights with it."""
    steps: list[Step] = [error("silent"), error("no", "denied")]
    assert Cloud(steps, [None]).asked(repeat="same").status == "unknown"
    assert Cloud(steps, [RUNS]).asked(repeat="same").status == "refused"


@pytest.mark.parametrize(("repeat", "requests"), [("same", 2), ("seen", 1), ("never", 1)])
def test_a_silent_request_is_not_repeated_blindly(repeat: Repeat, requests: int) -> None:
    """Unless the cloud carries the same id out once."""
    cloud = Cloud([error("silent"), ACCEPTED], [None])
    outcome = cloud.asked(repeat=repeat)
    assert (outcome.status, cloud.log.count("send")) == ("accepted" if requests == 2 else "unknown", requests)


@pytest.mark.parametrize("sent", ["perhaps", "silent"])
def test_what_would_have_a_second_effect_is_sent_once(sent: Sent) -> None:
    """A group would shrink twice; that its machine still runs proves nothing."""
    cloud = Cloud([error(sent), ACCEPTED])
    assert cloud.asked(repeat="never").status == "unknown"
    assert cloud.log == ["send", "look"]
    assert Cloud([error("no"), ACCEPTED]).asked(repeat="never") == ACCEPTED


def test_a_machine_needs_time_to_show_what_it_heard(naps: list[float]) -> None:
    """Looked at once, and again when it has settled; only then is it sent again."""
    cloud = Cloud([error("silent"), ACCEPTED])
    assert cloud.asked(20.0, settles=6.0) == ACCEPTED
    assert cloud.log == ["send", "look", "look", "send"]
    assert max(naps) == 6.0
    Cloud([error("silent", wait=7.0), ACCEPTED]).asked(20.0, settles=6.0)
    assert max(naps) == 7.0, "the cloud asks for more"
    hasty = Cloud([error("silent")])
    assert hasty.asked(5.0, settles=6.0).status == "unknown"
    assert hasty.log == ["send", "look"], "nothing has happened since that look"
    shown_late = Cloud([error("silent"), ACCEPTED], [None, ENDS])
    assert shown_late.asked(20.0, settles=6.0).status == "accepted"
    assert shown_late.log == ["send", "look", "look"]


def test_a_wait_that_the_cloud_asks_for_is_waited_or_not_begun(naps: list[float]) -> None:
    """Beyond the deadline the answer is given at once."""
    assert Cloud([error("no", wait=3.0), ACCEPTED]).asked() == ACCEPTED
    assert naps == [3.0]
    assert Cloud([error("no", wait=60.0), ACCEPTED]).asked().status == "failed"
    assert naps == [3.0]


@pytest.mark.parametrize("trouble", ["credentials", "clock", "gone", "changed", "refused", "denied"])
def test_what_does_not_pass_is_not_repeated(trouble: Trouble) -> None:
    """Whatever the error says of a wait."""
    cloud = Cloud([error("no", trouble, wait=1.0), ACCEPTED])
    outcome = cloud.asked()
    assert (outcome.status, cloud.log) == ("failed" if trouble in {"credentials", "clock"} else "refused", ["send"])


def test_rights_of_a_young_machine_arrive_late() -> None:
    """Waited for within the deadline, then refused."""
    assert Cloud([error("no", "denied"), ACCEPTED]).asked(young=True) == ACCEPTED
    late = Cloud([error("no", "denied")])
    assert late.asked(3.0, young=True).status == "refused"
    assert len(late.log) > 1
    assert Cloud([error("no", "denied"), ACCEPTED]).asked().status == "refused"


@pytest.mark.parametrize(("slow", "status", "sends"), [(4.0, "accepted", 2), (4.5, "failed", 1)])
def test_a_slow_look_leaves_no_time_for_another_request(slow: float, status: str, sends: int) -> None:
    """One that is cut off makes a certain failure an unknown one: it has `LEAST_TRY_SECONDS` seconds, or is not sent."""
    cloud = Cloud([error("perhaps", wait=3.0), ACCEPTED], slow=slow)
    assert cloud.asked(10.0).status == status
    assert cloud.log.count("send") == sends


def test_each_request_and_each_look_has_its_time(naps: list[float]) -> None:
    """A part of the deadline is kept for the last look, which is never cut short to nothing."""
    naps.append(1000.0)  # the clock counts from anywhere
    cloud = Cloud([error("silent")])
    cloud.asked(10.0)
    sends = [within for kind, within in zip(cloud.log, cloud.within, strict=True) if kind == "send"]
    assert sends[0] == 8.0
    assert all(within >= LEAST_TRY_SECONDS for within in sends)
    tiny = Cloud([error("silent")], slow=0.0)
    tiny.asked(0.1)
    assert tiny.within[-1] == LEAST_LOOK_SECONDS


def planned(verdict: str, code: str) -> Plan:
    return Plan("stop", verdict, (PlanFinding(code, "why"),))  # type: ignore[arg-type] # the tests spell the verdicts


@pytest.mark.parametrize(
    ("plan", "seen", "status"),
    [
        (planned("refuse", "locked"), RUNS, "refused"),
        (planned("another", "one_time_spot"), RUNS, "refused"),
        (planned("go", "bill_ends"), None, "refused"),
        (Plan("stop", "go"), None, "refused"),
        (planned("go", "ends_already"), ENDS, "accepted"),
    ],
)
def test_what_is_said_without_a_request(plan: Plan, seen: Look | None, status: str) -> None:
    """The plan is made again before the request; a machine that nobody saw is not ended."""
    outcome = unsent(plan, seen)
    assert outcome is not None
    assert (outcome.status, "nothing was sent" in outcome.detail) == (status, True)
    assert ("why" in outcome.detail) is (status == "refused" and bool(plan.findings))


def test_what_may_be_sent() -> None:
    """Nothing is said about it."""
    assert unsent(planned("consequences", "loses_disks"), RUNS) is None


def test_what_is_recorded_stays() -> None:
    """With what the cloud shows; without a record nothing is made up."""
    assert unchanged(ACCEPTED, "it runs") == ACCEPTED._replace(detail="accepted; it runs")
    assert unchanged(None, "it runs").status == "unknown"


@pytest.mark.parametrize("sent", get_args(Sent))
def test_every_word_of_doubt_has_a_row_above(sent: Sent) -> None:
    """A fifth one would need its own rule."""
    assert sent in TROUBLE
    assert error(sent).in_doubt is (sent in {"perhaps", "silent"})
