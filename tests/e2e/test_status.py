"""What people and programs see of a running agent."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import COMMAND, Agent
from tests.e2e.terminal import Terminal

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def test_status_says_why_the_machine_is_up_and_what_would_stop_it(agent: Agent) -> None:
    """The sentence comes first; then each GPU with its state, what keeps the machine up, and who may change that."""
    agent.start("grace=5m")
    agent.gpus.set(0, util=62, power=480)
    agent.until(lambda report: report["gpus"][0]["state"] == "works")
    shown = agent.ask("status")
    assert shown.returncode == 0
    assert shown.stdout.startswith(("IDLE: GPU 0 is busy", "ARMED: GPU 0 is busy"))
    assert re.search(r"GPU 0 \(NVIDIA H200\) +busy for \d+s +█+. +62 %", shown.stdout)
    assert re.search(r"GPU 1 \(NVIDIA H200\) +quiet for \d+s +0 %", shown.stdout)
    assert re.search(r"Keeps it up +GPU 0 is busy\n +dry run: nothing is stopped", shown.stdout)
    assert "`costguard hold 2h --reason WHY` postpones it" in shown.stdout
    assert f"state:{agent.folder}/state" in "".join(shown.stdout.split()), "which agent it talks to"
    assert not CONTROL.search(shown.stdout)
    assert max(map(len, shown.stdout.splitlines())) <= 100


def test_status_never_shows_unknown_as_idle(agent: Agent) -> None:
    """A GPU that cannot be read has no load, keeps the machine up, and its reason is told."""
    agent.start()
    agent.gpus.set(1, lost=True)
    agent.until(lambda report: report["gpus"][1]["state"] == "unknown")
    shown = agent.ask("status").stdout
    assert re.search(r"GPU 1 \(NVIDIA H200\) +unknown for \d+s +·+ +unknown", shown)
    assert "unknown  the GPU is lost" in shown
    assert "Keeps it up    GPU 1 cannot be read, and unknown is never idle" in shown


def test_status_says_when_people_will_be_warned_and_what_stands_in_the_way(agent: Agent) -> None:
    """An idle machine tells when its time is over; a plan that was refused is shown with what to do about it."""
    agent.start("arm_duration=off", "boot_grace=0s", "host.stands_for_host=true")
    shown = agent.until(lambda report: report["plans"] != [] and report["idle_at"] is not None)
    text = agent.ask("status").stdout
    assert re.search(r"idle for 1h: warning at \d\d:\d\d UTC \(in (1h|5\dm)\)", text)
    assert shown["plans"][0]["verdict"] == "refuse"
    assert "stop cannot be carried out now (see Plans)" in text
    assert '-> set kill_action = "shutdown" or "command"' in text


def test_status_survives_any_encoding(agent: Agent) -> None:
    """A reader without blocks and dots gets question marks, never an error."""
    agent.start()
    shown = agent.ask("status", PYTHONIOENCODING="ascii")
    assert shown.returncode == 0
    assert shown.stdout.isascii()
    assert "----------------" in shown.stdout, "an empty bar"


def test_json_is_the_raw_report(agent: Agent) -> None:
    """Programs get the agent's own words and numbers, dates in seconds since the epoch."""
    agent.start()
    report = json.loads(agent.ask("status", "--json").stdout)
    assert {"sentence", "state", "phase", "gpus", "holds", "plans", "agent"} <= set(report)
    assert report["agent"]["pid"] == agent.process.pid  # type: ignore[union-attr]  # it was started above


def test_hold_tells_who_until_when_and_what_it_costs(agent: Agent) -> None:
    """A hold is signed by the kernel's word for the user, is cut to the limit aloud, and is shown to all."""
    agent.start()
    held = agent.ask("hold", "2h", "--reason", "evaluation\x1b[31m tonight")
    assert held.returncode == 0
    assert re.match(r"Held by uid \d+( \(\S+\))? until \d\d:\d\d UTC \(in 2h\)\.\nThe agent is in dry run", held.stdout)
    shown = agent.ask("status").stdout
    assert shown.startswith("HELD: ")
    assert re.search(
        r"Keeps it up +held by uid \d+( \(\S+\))? until \d\d:\d\d UTC \(in [12]h[^)]*\): evaluation  ?\[31m tonight",
        shown,
    )
    assert "\x1b" not in shown, "a reason cannot rewrite the reader's screen"
    long = agent.ask("hold", "2h", "--reason", "x" * 100_000)
    assert (long.returncode, long.stderr) == (0, "")
    cut = agent.ask("hold", "5d").stdout
    assert "You asked for 5d; the configuration allows 1d now" in cut
    answer = json.loads(agent.ask("hold", "1m", "--json").stdout)
    assert answer["done"] is True
    assert answer["hold"]["owner"]


def test_hold_in_live_mode_names_the_bill(agent: Agent) -> None:
    """Where something would be stopped, a hold says that the machine is billed on."""
    agent.start("mode=live", "kill_action=end_process")
    assert "so the machine is billed at least until then" in agent.ask("hold", "10m").stdout


def test_release_ends_every_hold(agent: Agent) -> None:
    """It says whose hold it ended, and what holds now; with nothing held it says so."""
    agent.start()
    assert agent.ask("release").stdout.startswith("Nothing was held.\n")
    agent.ask("hold", "2h")
    done = agent.ask("release")
    assert done.returncode == 0
    assert re.match(r"Released: the hold of .*uid \d+.*\.\n[A-Z]+: ", done.stdout)
    assert json.loads(agent.ask("status", "--json").stdout)["holds"] == []


@pytest.mark.parametrize("verb", [["status"], ["status", "--watch"], ["hold", "2h"], ["release"]])
def test_without_an_agent_it_says_so(tmp_path: Path, verb: list[str]) -> None:
    """Exit code 3, what it means for the bill, and the next command; never a traceback."""
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    command = [*COMMAND, *verb, "--state-dir", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    assert re.match(r"error: no costguard agent is running at .*nothing is done when", done.stderr)
    assert "hint: start one with `costguard run`" in done.stderr


@pytest.mark.parametrize(
    ("length", "words"),
    [
        ("0", "0' is not"),
        ("-1", "not a duration"),
        ("soon", "not a duration"),
        ("2", "write 2h or 2m"),
        ("90", "write 90m or 90s"),
    ],
)
def test_a_hold_needs_a_time(length: str, words: str) -> None:
    """Nonsense, and a number without its unit, is a usage error before anybody is asked."""
    done = subprocess.run([*COMMAND, "hold", "--", length], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "write a time such as 30m, 2h or 1d" in done.stderr


def test_watch_shows_a_screen_and_survives_the_agent(agent: Agent) -> None:
    """On a terminal it redraws in place, follows the machine, says when nobody answers, and leaves the screen clean.

    The terminal is too small for all of it: what matters stands at its top.
    """
    agent.start()
    command = [*COMMAND, "status", "--watch", "--every", "0.1", "--state-dir", str(agent.folder / "state")]
    with Terminal(command, agent.environment | {"TERM": "xterm-256color"}, rows=12) as terminal:
        terminal.until(r"quiet for")
        agent.gpus.set(0, util=62, power=480)
        assert terminal.until(r"busy for \d+s +62 %").count("Keeps it up") == 1
        agent.stop()
        terminal.until(r"NO ANSWER: no costguard agent is running")
        terminal.interrupt()
        assert terminal.end() == 0
        assert not terminal.screen.cursor.hidden
        assert terminal.raw.count("\x1b[?1049h") == terminal.raw.count("\x1b[?1049l") == 1


def test_one_answer_has_one_zone(agent: Agent) -> None:
    """The agent's, whose sentences stand in it, wherever the person who asks sits."""
    agent.start("boot_grace=0s", "arm_duration=off", "kill_duration=1h")
    assert agent.ask("hold", "2h", "--reason", "x").returncode == 0
    agent.until(lambda report: report["state"] == "HELD")
    for verb in ("status", "doctor"):
        shown = agent.ask(verb, TZ="NPT-5:45").stdout
        assert "UTC" in shown, shown
        assert "NPT" not in shown, shown
