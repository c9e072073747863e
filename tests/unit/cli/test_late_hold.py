"""A hold that comes after the request: exit code 3, and how the machine is started again."""

import json
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from costguard.cli.main import main
from costguard.config.paths import resolve
from costguard.host.control import SOCKET

LATE = {"done": False, "words": "too late: the request to stop has already been sent"}


@contextmanager
def agent(folder: Path, cloud: dict[str, Any], action: str = "stop") -> Iterator[None]:
    """One that refuses every hold, on the real socket."""
    runtime = Path(resolve(str(folder), os.environ).runtime)
    runtime.mkdir(parents=True, exist_ok=True)

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = json.loads(self.rfile.readline())["command"]
            report = {
                "deadline": {"limit": "lifetime"},
                "agent": {"cloud": cloud},
                "action": "stop",
                "incident": {"action": action},
            }
            said = report if asked == "status" else LATE
            self.wfile.write(json.dumps(said).encode() + b"\n")

    with socketserver.ThreadingUnixStreamServer(str(runtime / SOCKET), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.parametrize("verb", [["hold", "2h"], ["hold", "--past-deadline", "2h"]])
@pytest.mark.parametrize("start", ["aws ec2 start-instances --instance-ids i-1", ""])
def test_who_is_too_late_reads_how_to_start_it_again(tmp_path: Path, verb: list[str], start: str) -> None:
    """From elsewhere, since this machine is going off; without a known command `status` is what is left."""
    with agent(tmp_path, {"start": start} if start else {}):
        done = CliRunner().invoke(main, [*verb, "--state-dir", str(tmp_path)])
    assert done.exit_code == 3
    assert "too late" in done.stderr
    assert (f"start it again from elsewhere: {start}" in done.stderr) is bool(start)


def test_who_is_too_late_for_a_command_reads_nothing_of_a_start(tmp_path: Path) -> None:
    """The machine stays up."""
    with agent(tmp_path, {"start": "aws ec2 start-instances --instance-ids i-1"}, "command"):
        done = CliRunner().invoke(main, ["hold", "2h", "--state-dir", str(tmp_path)])
    assert (done.exit_code, "start" in done.stderr) == (3, False)


@pytest.mark.parametrize(
    ("action", "hint"),
    [
        ("stop", "start it again from elsewhere: aws ec2 start-instances"),
        ("hibernate", "start it again from elsewhere: cloud resume"),
        ("shutdown", "start it again from elsewhere: aws ec2 start-instances"),
        ("terminate", "cannot be started again: create a new one"),
        ("reboot", "see `costguard status`"),
    ],
)
def test_what_is_said_of_a_start_is_true_of_the_action(tmp_path: Path, action: str, hint: str) -> None:
    """A machine that is deleted cannot be started, and one that reboots comes back by itself."""
    with agent(tmp_path, {"start": "aws ec2 start-instances --instance-ids i-1", "resume": "cloud resume m"}, action):
        done = CliRunner().invoke(main, ["hold", "2h", "--state-dir", str(tmp_path)])
    assert done.exit_code == 3
    assert hint in done.stderr
    assert ("start-instances" in done.stderr) is ("start-instances" in hint)
