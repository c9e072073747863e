"""The service on a machine that booted."""

import pytest

from tests.vm.guarded import Guarded

pytestmark = pytest.mark.timeout(900)


def test_it_is_active_and_an_ordinary_user_may_ask_and_hold(guarded: Guarded) -> None:
    """Who works on the machine sees why it is up, and can postpone the end."""
    assert guarded.shell("systemctl is-active costguard").strip() == "active"
    assert guarded.status(user="alice")["state"] == "STARTING"
    guarded.run("costguard", "hold", "1h", "--reason", "an experiment", user="alice")
    assert guarded.status(user="bob")["state"] == "HELD"
    guarded.run("costguard", "release", user="alice")


def test_it_comes_back_after_a_kill(guarded: Guarded) -> None:
    """With what it knew: a machine that was armed stays armed."""
    guarded.move(util=90)
    guarded.until(lambda: guarded.status()["armed"])
    first = guarded.shell("systemctl show -P MainPID costguard")
    guarded.run("systemctl", "kill", "--signal=KILL", "costguard")
    guarded.until(lambda: guarded.shell("systemctl show -P MainPID costguard") not in {first, "0\n"})
    guarded.until(guarded.sees_gpus)
    assert guarded.status()["armed"]
