"""The cloud action itself sends nothing that may not be sent, whoever calls it."""

from collections.abc import Callable

import pytest

from costguard.actions.base import Context, DryRunError
from costguard.actions.cloud import CloudAction
from costguard.plans import Verdict
from costguard.process.wire import build
from tests.clouds.core.conftest import EXAMPLE, Rented
from tests.contract.cloud_server import Cloud

Jobs = Callable[..., Context]


@pytest.fixture
def job(rented: Rented, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return lambda **more: build(Context, rented.job("act", **more))


@pytest.mark.parametrize("mode", ["dry-run", "LIVE", ""])
def test_a_dry_run_raises_before_anything_is_sent(job: Jobs, cloud: Cloud, mode: str) -> None:
    """Also where the worker in front of it did not refuse; everything but the exact word is a dry run."""
    action = CloudAction("stop")
    plan = action.plan(action.facts(job(mode=mode)))
    assert plan.may_act
    with pytest.raises(DryRunError):
        action.execute(plan, job(mode=mode))
    assert cloud.asked == []
    assert action.execute(plan, job()).status == "accepted"
    assert len(cloud.asked) == 1


@pytest.mark.parametrize("verdict", ["refuse", "another", "failed"])
def test_a_plan_that_does_not_pass_is_not_carried_out(job: Jobs, cloud: Cloud, verdict: Verdict) -> None:
    """The session is warm, and the request would be accepted: the plan alone stands in the way."""
    action = CloudAction("stop")
    plan = action.plan(action.facts(job()))
    assert action.execute(plan._replace(verdict=verdict), job()).status == "failed"
    assert cloud.asked == []
    assert action.execute(plan._replace(verdict="consequences"), job()).status == "accepted"


def test_without_a_session_nothing_is_sent(job: Jobs, cloud: Cloud) -> None:
    """A later look that failed takes the session of an earlier one away: what it saw may have changed."""
    action = CloudAction("stop")
    plan = action.plan(action.facts(job()))
    assert CloudAction("stop").execute(plan, job()).status == "failed"
    cloud.fail["/machine"] = 503
    assert action.facts(job()).session is None
    assert action.execute(plan, job()).status == "failed"
    assert cloud.asked == []
