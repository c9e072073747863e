"""Channels that lead to nobody: a guard without a terminal, a task that has ended."""

from pathlib import Path

import pytest

from costguard.notify import wall
from costguard.notify.job import UNASKED, DeliveryResult
from costguard.notify.message import AbsentError, Message
from costguard.notify.task import in_one_line

NO_TERMINAL = {"terminal": "costguard has no terminal of its own"}
ENDED = {"task": "job 1 has ended"}


@pytest.mark.parametrize("told", [DeliveryResult({"team": "Slack"}, absent=NO_TERMINAL), DeliveryResult(failed={"team": "HTTP 500"}, absent=NO_TERMINAL)])  # fmt: skip
def test_beside_others_it_is_no_failure(told: DeliveryResult) -> None:
    """What became of those who are there is all that there is to say."""
    assert told.among_those_present("warning") == told._replace(absent={})


@pytest.mark.parametrize("kind", ["warning", "done"])
def test_alone_it_is_one(kind: str) -> None:
    """A warning to a machine at which nobody sits has reached nobody."""
    assert DeliveryResult(absent=NO_TERMINAL).among_those_present(kind) == DeliveryResult(failed=NO_TERMINAL)


def test_a_task_that_has_ended_has_nobody_left_to_hear_it() -> None:
    """That is no failure, either; but a warning that nobody heard stays one."""
    told = DeliveryResult(absent={**NO_TERMINAL, **ENDED}, answered={"task": 5.0})
    assert told.among_those_present("done") == DeliveryResult(
        {UNASKED: "nobody is left to hear it: job 1 has ended"}, answered={"task": 5.0}
    )
    assert told.among_those_present("warning").failed == {**NO_TERMINAL, **ENDED}


def test_a_test_asks_for_each() -> None:
    """Whoever tests a channel is told that it leads to nobody."""
    told = DeliveryResult({"team": "Slack"}, absent=NO_TERMINAL).among_those_present("test")
    assert (told.reached, told.failed, told.absent) == ({"team": "Slack"}, NO_TERMINAL, {})


def test_a_task_reads_one_line_of_whole_sentences() -> None:
    """Schedulers join what has lines."""
    message = Message("m", "warning", "warning", "job 1 will be ended (in 5m)", "Why: idle.\n\n- Nothing else ends\n")
    assert in_one_line(message) == "job 1 will be ended (in 5m). Why: idle. - Nothing else ends."


def test_who_is_not_at_a_terminal_is_no_channel_that_failed(tmp_path: Path) -> None:
    """With a team that hears it, the history would say so of each message; alone the machine has told nobody."""
    (tmp_path / "dev").mkdir()
    with pytest.raises(AbsentError, match="nobody is logged in"):
        wall.deliver(
            Message("m", "held", "info", "title", ""), {"procfs": str(tmp_path), "devfs": str(tmp_path / "dev")}
        )
