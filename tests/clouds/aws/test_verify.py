"""A receipt, asked about from any machine."""

import pytest

from costguard.cloud.api import CloudError
from costguard_aws import PROVIDER, session
from costguard_aws.testing import FakeMachine


def receipt(here: FakeMachine, **change: str) -> dict[str, str]:
    return {"cloud": "AWS", "instance": here.id, "region": "us-east-1", "account": "123456789012", **change}


def test_from_running_to_closed(here: FakeMachine) -> None:
    """In the words of the three grades."""
    site = here.site()
    running = PROVIDER.verify(site, receipt(here))
    here.ec2.stop_instances(InstanceIds=[here.id])
    stopping, closed = (PROVIDER.verify(site, receipt(here)) for _ in range(2))
    assert [one.status for one in (running, stopping, closed)] == ["failed", "pending", "done"]
    assert "the bill goes on" in running.detail
    assert stopping.detail.startswith("seen stopping")
    assert closed.detail.startswith("closed")


@pytest.mark.parametrize(
    ("accepted", "status"),
    [("2020-01-01T00:00:00Z", "done"), ("2120-01-01T00:00:00Z", "failed"), ("soon", "failed"), ("", "failed")],
)
def test_one_that_runs_again(here: FakeMachine, accepted: str, status: str) -> None:
    """Started after the request: that bill has ended, and a new one runs. Started before it: nothing has happened."""
    found = PROVIDER.verify(here.site(), receipt(here, accepted=accepted))
    assert found.status == status
    assert ("billed again" in found.detail) is (status == "done")


def test_a_forgotten_instance_of_the_same_account(here: FakeMachine) -> None:
    """EC2 forgets the terminated after an hour: with that account's credentials this is the end of the bill."""
    found = PROVIDER.verify(here.site(), receipt(here, instance="i-0fffffffffffffff0"))
    assert (found.status, found.detail.partition(":")[0]) == ("done", "closed")


@pytest.mark.parametrize("account", ["999999999999", ""])
def test_credentials_of_another_account_prove_nothing(here: FakeMachine, account: str) -> None:
    """They never knew it."""
    found = PROVIDER.verify(here.site(), receipt(here, instance="i-0fffffffffffffff0", account=account))
    assert found.status == "unknown"
    assert "123456789012" in found.detail


@pytest.mark.parametrize("trouble", ["throttle", "expired", "cut_before"])
def test_no_answer_is_no_end(here: FakeMachine, monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """Only *NotFound* means forgotten."""
    monkeypatch.setattr(session, "WHOLE_SECONDS", 3.0)
    here.api.fail(trouble, "DescribeInstances", 10)  # type: ignore[arg-type]  # the table is data
    with pytest.raises(CloudError) as caught:
        PROVIDER.verify(here.site(), receipt(here))
    assert caught.value.technical


def test_a_denied_question_is_no_end(here: FakeMachine) -> None:
    """The right is named."""
    here.api.denied = {"DescribeInstances"}
    with pytest.raises(CloudError, match="ec2:DescribeInstances"):
        PROVIDER.verify(here.site(), receipt(here))


def test_a_receipt_of_another_machine(here: FakeMachine) -> None:
    """The same id in another account is not the same machine."""
    with pytest.raises(CloudError) as caught:
        PROVIDER.verify(here.site(), receipt(here, account="999999999999"))
    assert caught.value.trouble == "changed"


@pytest.mark.parametrize("missing", ["instance", "region"])
def test_half_a_receipt(here: FakeMachine, missing: str) -> None:
    """Refused, with where to get a whole one."""
    with pytest.raises(CloudError, match="receipt") as caught:
        PROVIDER.verify(here.site(), receipt(here, **{missing: ""}))
    assert caught.value.hint
