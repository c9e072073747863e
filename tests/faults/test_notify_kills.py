"""Whoever has a message does not get it again, at whatever moment its sender is killed; and whoever has not gets it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from costguard.history import FILE, store
from costguard.history.job import Batch, MachineMinute
from costguard.notify import summary
from costguard.notify.delivery_record import FOLDER
from costguard.notify.exchange import Exchange
from costguard.notify.retry_after import LONGEST_WAIT_SECONDS
from tests.faults.receivers import PATIENCE, Receivers, Step

DAY, HOUR = 86400.0, 3600.0
WEEK = 7 * DAY


@pytest.fixture
def receivers(tmp_path: Path) -> Iterator[Receivers]:
    with Receivers(tmp_path) as made:
        yield made


class Sender:
    """The worker with one message for some channels, which can be killed."""

    def __init__(self, folder: Path, receivers: Receivers, *services: str) -> None:
        self.folder, self.receivers = folder, receivers
        self.channels: dict[str, dict[str, str]] = {}
        for name in services:
            (folder / name).write_text(receivers.address(name) + "\n")
            (folder / name).chmod(0o600)
            self.channels[name] = {"urls": f"file:{folder / name}"}

    def start(self, message: dict[str, Any], **job: Any) -> "subprocess.Popen[bytes]":
        """One more try."""
        whole = {
            "message": message, "channels": list(self.channels), "deadline": 25.0,
            "settings": {"channels": self.channels, "runtime": str(self.folder)}, **job,
        }  # fmt: skip
        worker = subprocess.Popen(
            [sys.executable, "-m", "costguard.notify.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **self.receivers.environment},
        )  # fmt: skip
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(whole).encode() + b"\n")
        worker.stdin.flush()
        return worker

    def tell(self, message: dict[str, Any], **job: Any) -> dict[str, Any]:
        """A try that nobody kills; what it says."""
        worker = self.start(message, **job)
        try:
            out, _ = worker.communicate(timeout=PATIENCE)
        finally:
            worker.kill()
        return {"reached": {}, "failed": {}, **json.loads(out)}

    def recorded(self, service: str) -> bool:
        """Whether it is written down that a service took the message."""
        return any(f'\n["{service}"' in path.read_text() for path in (self.folder / FOLDER).glob("*"))

    def killed(self, message: dict[str, Any], service: str, step: Step, **job: Any) -> None:
        """A try whose worker is killed at a step of one service, when all others have the message."""
        gate = self.receivers.gate
        gate.shut(service, step)
        worker = self.start(message, **job)
        assert gate.arrived.wait(PATIENCE)
        others, end = set(self.channels) - {service}, time.monotonic() + PATIENCE
        while not all(map(self.recorded, others)):
            assert time.monotonic() < end
            time.sleep(0.02)
        worker.kill()
        worker.communicate()
        gate.forget()


WARNING = {
    "id": "m1",
    "kind": "warning",
    "level": "warning",
    "title": "gpu-7 will be stopped",
    "body": "Hold it.",
    "facts": {"incident": "b-i1"},
}


def test_a_pager_knows_a_further_try_of_a_warning(tmp_path: Path, receivers: Receivers) -> None:
    """It took the first and could not say so. The next try has an id of its own, as the engine gives it: one alert all the same."""
    sender = Sender(tmp_path, receivers, "pagerduty")
    sender.killed(WARNING, "pagerduty", "taken")
    told = sender.tell({**WARNING, "id": "m2"}, again=True)
    assert list(told["reached"]) == ["pagerduty"]
    first, again = receivers.of_service("pagerduty")
    assert first.key == again.key
    sender.tell({**WARNING, "id": "m3"})
    assert receivers.of_service("pagerduty")[2].key != first.key, "a new countdown is news"


def test_a_mail_server_that_does_not_say_goodbye_delays_nothing(tmp_path: Path, receivers: Receivers) -> None:
    """It has taken the message: that is known at once, and not sent again by whoever comes after."""
    receivers.gate.shut("mail", "leaving")
    began = time.monotonic()
    told = Sender(tmp_path, receivers, "mail").tell(WARNING)
    assert list(told["reached"]) == ["mail"]
    assert time.monotonic() - began < 12.0
    assert len(receivers.of_service("mail")) == 1


CUT_OFF = b"HTTP/1.1 200 OK\r\nContent-Type: text"


def test_an_answer_that_is_cut_off_brings_no_second_message(tmp_path: Path, receivers: Receivers) -> None:
    """The service has taken it and says so, and its "ok" is lost on the way: the chat would have the same six times."""
    receivers.cut_answers = CUT_OFF
    told = Sender(tmp_path, receivers, "slack").tell(WARNING)
    assert "hooks.slack.com answered without saying that it took the message (it may still have arrived)" in str(
        told["failed"]
    )
    assert len(receivers.posts) == 1


@pytest.mark.parametrize("reply", ["2", "25"])
def test_a_reply_of_a_mail_server_that_is_cut_off_brings_no_second_message(
    tmp_path: Path, receivers: Receivers, reply: str
) -> None:
    """It has the whole text."""
    receivers.mail.last_words = reply
    told = Sender(tmp_path, receivers, "mail").tell(WARNING)
    assert "it may still have arrived" in str(told["failed"])
    assert len(receivers.posts) == 1


def summary_of(folder: Path) -> dict[str, Any]:
    """A machine with a week behind it, whose summary is due; the message as the guard asks for it."""
    now = time.time()
    begin = (now - WEEK) // 900 * 900
    minutes = tuple(MachineMinute(int(begin + 60 * n), 30.0, 20.0, 10.0) for n in range(200))
    last = tuple(MachineMinute(int(now - 7200 + 60 * n), 30.0, 20.0, 10.0) for n in range(55))
    store.save(Batch(str(folder / FILE), "b1", "i-1", now, dated=True, machine=minutes + last, events=(), gpus=()))
    summary.keep(str(folder), begin, begin)
    return {
        "id": "any",
        "kind": "summary",
        "level": "info",
        "facts": {"state": str(folder), "every": "daily", "mode": "live"},
    }


def an_hour_later(folder: Path, by: float) -> None:
    """What is written of who has taken it is that much older."""
    for path in (folder / FOLDER).glob("*"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps([*row[:3], row[3] - by]) + "\n" for row in rows))


@pytest.mark.parametrize("step", ["before", "taken"])
def test_a_summary_whose_sender_was_killed_reaches_each_once(tmp_path: Path, receivers: Receivers, step: Step) -> None:
    """Its next try is an hour later. Who has it is spared, the other one reads the same hours, and none are left out of the next one."""
    message, sender = summary_of(tmp_path), Sender(tmp_path, receivers, "mail", "slack")
    sender.killed(message, "slack", step)
    until = json.loads((tmp_path / summary.SENDING).read_text())["facts"]["until"]
    an_hour_later(tmp_path, by=HOUR + 60.0)
    now = time.time()
    more = tuple(MachineMinute(int(now - 3600 + 60 * n), 60.0, 0.0, 0.0) for n in range(60))
    store.save(Batch(str(tmp_path / FILE), "b2", "i-1", now, dated=True, machine=more, events=(), gpus=()))
    told = sender.tell(message)
    assert set(told["reached"]) == {"mail", "slack"}
    assert len(receivers.of_service("mail")) == 1, "it had answered"
    posts = receivers.of_service("slack")
    assert len(posts) == (2 if step == "taken" else 1)
    assert {post.title for post in posts} == {receivers.of_service("mail")[0].title}
    stamp = summary.stamp(str(tmp_path))
    assert stamp is not None
    assert stamp.told_until == until, "of the hour that came later nobody was told"
    assert json.loads(sender.tell(message).get("error") or "{}") == {}
    assert len(receivers.posts) == 1 + len(posts), "it is told"


def test_a_summary_that_nobody_had_is_made_anew(tmp_path: Path, receivers: Receivers) -> None:
    """With what happened meanwhile."""
    message, sender = summary_of(tmp_path), Sender(tmp_path, receivers, "mail")
    sender.killed(message, "mail", "before")
    now = time.time()
    more = tuple(MachineMinute(int(now - 1200 + 60 * n), 60.0, 0.0, 0.0) for n in range(60))
    store.save(Batch(str(tmp_path / FILE), "b2", "i-1", now, dated=True, machine=more, events=(), gpus=()))
    kept = json.loads((tmp_path / summary.SENDING).read_text())
    assert list(sender.tell(message)["reached"]) == ["mail"]
    assert len(receivers.posts) == 1
    assert not (tmp_path / summary.SENDING).exists()
    assert kept["id"].startswith("summary-")


@pytest.mark.parametrize(
    ("answer", "waits"),
    [
        ('{"ok":false,"error_code":429,"parameters":{"retry_after":40}}', 40.0),
        ('{"message":"You are being rate limited.","retry_after":0.3}', 1.0),
        ('{"parameters":{"retry_after":-1}}', 0.0),
        ('{"parameters":{"retry_after":true}}', 0.0),
        ('{"parameters":{"retry_after":1e99}}', LONGEST_WAIT_SECONDS),
        ('{"parameters":7,"retry_after":"7"}', 0.0),
        ("[7]", 0.0),
        ("gone", 0.0),
    ],
)
def test_a_service_that_says_in_its_answer_how_long_it_waits(answer: str, waits: float) -> None:
    """Telegram has no Retry-After: the pause that it asks for stands in the text."""
    response = requests.Response()
    response.status_code, response._content = 429, answer.encode()
    seen = Exchange()
    seen.answered(response)
    assert seen.wait == pytest.approx(waits, abs=0.5)


def recalled(folder: Path, message: dict[str, Any] | None, *channels: str) -> list[dict[str, Any]]:
    """What the program says of a message, or of all that were cut off."""
    job = {"runtime": str(folder), "why": "killed", "before": time.clock_gettime(time.CLOCK_BOOTTIME)}
    about = (
        {"message": {name: message[name] for name in ("id", "kind", "level", "facts")}, "channels": channels}
        if message
        else {}
    )
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.recall"], input=json.dumps({**job, **about}).encode() + b"\n",
        capture_output=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    return [{"reached": {}, "failed": {}, **json.loads(line)} for line in done.stdout.splitlines()]


@pytest.mark.parametrize("asked", ["by its guard", "by the next guard"])
def test_who_had_a_message_when_its_worker_was_killed_is_known(
    tmp_path: Path, receivers: Receivers, asked: str
) -> None:
    """Mail has it, Slack had it and could not say so; nothing is called sent that was not, nor the other way round."""
    sender = Sender(tmp_path, receivers, "mail", "slack")
    sender.killed(WARNING, "slack", "taken")
    (found,) = recalled(tmp_path, WARNING, "mail", "slack") if asked == "by its guard" else recalled(tmp_path, None)
    assert found["reached"] == {"mail": "E-Mail"}
    assert found["failed"] == {"slack": "killed; it may have arrived"}
    if asked == "by the next guard":
        text = {"title": WARNING["title"], "body": WARNING["body"]}
        assert found["beside"] == {"id": "m1", "kind": "warning", "incident": "b-i1", **text}
    assert recalled(tmp_path, None) == [], "it is told once"


def test_a_worker_whose_guard_is_gone_before_it_begins_sends_nothing(tmp_path: Path, receivers: Receivers) -> None:
    """It starts slowly, and the guard is killed meanwhile: the next one tells the same, and people would read it twice."""
    sender = Sender(tmp_path, receivers, "slack")
    assert sender.tell(WARNING, guard=os.getppid())["error"] == "the agent that asked for it is gone"
    assert receivers.posts == []
    assert list(sender.tell(WARNING, guard=os.getpid())["reached"]) == ["slack"]


def test_a_message_that_never_left_its_pause_was_not_sent(tmp_path: Path, receivers: Receivers) -> None:
    """Its worker was killed while it waited for its turn in a fleet."""
    sender = Sender(tmp_path, receivers, "slack")
    worker = sender.start(WARNING, pause=60.0)
    end = time.monotonic() + PATIENCE
    while not list((tmp_path / FOLDER).glob("*")):
        assert time.monotonic() < end
        time.sleep(0.02)
    worker.kill()
    worker.communicate()
    (found,) = recalled(tmp_path, None)
    assert (found["reached"], found["failed"]) == ({}, {"slack": "killed; it was not sent"})
    assert receivers.posts == []
