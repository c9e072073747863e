"""What `history` tells, of a real agent: while it runs, after it is gone, and when it cannot write."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.e2e.conftest import COMMAND, PATIENCE, Agent


def recorded(agent: Agent, enough: Any) -> dict[str, Any]:
    """The first history for which something holds."""
    end = time.monotonic() + PATIENCE
    while True:
        answer = agent.ask("history", "--json")
        if answer.returncode == 0 and enough(json.loads(answer.stdout)):
            found = json.loads(answer.stdout)
            assert isinstance(found, dict)
            return found
        assert time.monotonic() < end, f"{answer}\n{(agent.folder / 'log').read_text()}"
        time.sleep(0.2)


def test_an_incident_can_be_read_while_the_agent_runs_and_after_it_is_gone(agent: Agent) -> None:
    """Who was told and when, the readings, what was done: at once on the disk, with and without an agent."""
    agent.start(
        "grace=1s",
        "notify.attempts=1",
        "kill_duration=2s",
        "arm_duration=off",
        "boot_grace=0s",
        "kill_action=end_process",
    )
    found = recorded(agent, lambda shown: shown["incidents"] and shown["incidents"][0]["result"] == "would")
    (incident,) = found["incidents"]
    assert (incident["reason"], incident["action"], incident["mode"]) == ("idle", "end_process", "dry-run")
    agent.stop()
    assert sum(day["quiet"] for day in recorded(agent, lambda shown: shown["days"])["days"]) > 2.0
    listed = agent.ask("history")
    assert listed.returncode == 0
    assert re.search(r"\d{4}-\d\d-\d\d [\d:]+ +\w+-i\d+ +exit of costguard, idle +dry run: it would", listed.stdout)
    told = agent.ask("history", incident["id"])
    assert told.returncode == 0
    assert re.search(r"reason +idle; exit of costguard, DRY RUN", told.stdout)
    assert re.search(r"told: DRY RUN: \S+: costguard would end with exit code 0", told.stdout)
    assert "NOT delivered" in told.stdout, "no channel is configured here"
    assert max(map(len, told.stdout.splitlines())) <= 100
    assert agent.ask("history", "last").stdout == told.stdout
    shown = json.loads(agent.ask("history", "last", "--json").stdout)
    assert {"incident", "events", "hour_before", "file"} <= set(shown)


def test_a_guard_that_was_killed_leaves_what_it_had_recorded(agent: Agent) -> None:
    """Events are on the disk when they happen; the next guard goes on in the same file."""
    agent.start("kill_action=end_process")
    agent.ask("hold", "1h", "--reason", "a long evaluation\x1b[31m")
    message = recorded(agent, lambda shown: shown["messages"])["messages"][0]
    assert (message["kind"], message["data"]["name"]) == ("told", "held")
    assert agent.process is not None
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    shown = agent.ask("history").stdout
    assert re.search(r"is held by uid \d+( \(\S+\))? until", shown)
    assert "\x1b" not in shown
    agent.start("kill_action=end_process")
    agent.ask("release")
    again = recorded(agent, lambda shown: "released" in [message["kind"] for message in shown["messages"]])
    assert [message["kind"] for message in again["messages"] if message["kind"] != "outcome"][:2] == [
        "told",
        "released",
    ]


def test_a_disk_that_cannot_be_written_is_told_and_stops_nothing(agent: Agent) -> None:
    """The status names it; the agent ends its work all the same."""
    place = agent.folder / "state/history.sqlite"
    place.parent.mkdir()
    place.mkdir()
    agent.start(
        "mode=live",
        "kill_action=end_process",
        "grace=1s",
        "notify.attempts=1",
        "kill_duration=5s",
        "arm_duration=off",
        "boot_grace=0s",
    )
    assert agent.process is not None
    assert agent.process.wait(timeout=PATIENCE) == 0
    agent.process = None
    log = (agent.folder / "log").read_text()
    assert log.count("history is not written") == 1
    assert "unable to open database file" in log


def test_the_report_of_a_running_agent_shows_what_it_decides_by(agent: Agent) -> None:
    """Nothing was told yet, so no threshold is recorded: the agent is asked; what it has in memory is written first."""
    agent.start("kill_action=end_process", "kill_threshold=12%", "stop_below_load=true", "price_per_hour=3.5")
    recorded(agent, lambda shown: shown["days"])
    done = agent.ask("history", "--html", str(agent.folder / "report.html"))
    assert done.returncode == 0, done.stderr
    page = (agent.folder / "report.html").read_text()
    assert "idle below 12 %" in page
    assert "3.50 USD an hour" in page
    assert "This machine: it was on at" in page


def test_no_history_is_said(tmp_path: Path) -> None:
    """Exit code 3, where it looked, and what to do; never a traceback."""
    done = subprocess.run(
        [*COMMAND, "history", "--state-dir", str(tmp_path)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: there is no history at {tmp_path}/history.sqlite\nhint: ")


def test_since_takes_a_length_or_a_date(tmp_path: Path) -> None:
    """Anything else is a usage error that says what is allowed."""

    def since(when: str) -> subprocess.CompletedProcess[str]:
        argv = [*COMMAND, "history", "--since", when, "--state-dir", str(tmp_path)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)

    for when in ("7d", "12h", "2025-11-21", "2025-11-21T10:00"):
        assert since(when).returncode == 3
    for when, words in (("soon", "neither a duration nor a date"), ("7", "write 7h or 7m")):
        done = since(when)
        assert done.returncode == 2
        assert words in done.stderr
        assert "such as 7d or 12h, or a past date" in " ".join(done.stderr.split())
