"""Many machines: rates, whom the stops hit, and when."""

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from costguard.cli.main import main
from costguard.replay.fleet import SHOWN, facts, hit_most, rates, wrong_stops
from costguard.replay.fleet import MachineSummary as Made
from costguard.replay.levels import Levels
from costguard.replay.run import walk
from costguard.replay.show import PolicyRun
from costguard.replay.summary import account
from tests.unit.replay.made import ROOMY, START, trace

POLICY = "kill_duration=10m, grace=1m, boot_grace=0s, unused_after=off"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates are local; the tests live in UTC, without anybody's own configuration."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for name in [name for name in os.environ if name.startswith("COSTGUARD_")]:
        monkeypatch.delenv(name)


def made(name: str, *pauses: int) -> Made:
    """A machine that works, rests for so many samples of ten seconds, and works again."""
    loads = [0.9] * 30
    for pause in pauses:
        loads += [0.0] * pause + [0.9] * 30
    recorded = trace(loads)._replace(name=name)
    levels = Levels(recorded)
    walked = walk(levels, ROOMY)
    return PolicyRun("", recorded, walked.policy, account(levels, walked), walked).machine


def test_who_is_hit_most_comes_first_and_who_is_not_stays_out() -> None:
    """By stops after which work came back; a machine without any is none of them."""
    machines = [made("calm", 20), made("once", 100), made("often", 100, 120, 90)]
    assert [machine.name for machine in hit_most(machines)] == ["often", "once"]


def test_wrong_stops_have_their_date_and_how_long_after_them_work_came_back() -> None:
    """The one after which work came back soonest is first; one after which nothing came is none."""
    machines = [made("a", 100), made("b", 70, 400)]
    late, soon = START + (29 + 60) * 10 + 60, START + (29 + 60) * 10 + 60
    found = wrong_stops(machines)
    assert [(wrong.machine, wrong.after) for wrong in found] == [("b", 50.0), ("a", 350.0), ("b", 3350.0)]
    assert (found[0].at, found[1].at) == (soon, late)
    tail = trace([0.9] * 30 + [0.0] * 300)
    walked = walk(Levels(tail), ROOMY)
    ended = PolicyRun("", tail, walked.policy, account(Levels(tail), walked), walked).machine
    assert (ended.summary.stops, wrong_stops([ended])) == (1, [])


def test_rates_are_those_of_a_machine_in_thirty_days() -> None:
    """Two machines of which each is stopped once in an hour and a half; none where nothing was recorded."""
    machine = made("a", 480)
    hours = machine.summary.hours
    month = facts([machine, machine])["per_machine_month"]
    assert isinstance(month, dict)
    assert month["stops"] == pytest.approx(720.0 / hours)
    empty = machine.summary._replace(hours=0.0)
    assert rates(empty) == {}
    month = facts([Made("a", empty, ())])["per_machine_month"]
    assert isinstance(month, dict)
    assert set(month.values()) == {None}


def test_holes_dilute_no_rate() -> None:
    """A clock that jumped by a month has recorded nothing in it."""
    loads = [0.9] * 30 + [0.0] * 100
    short = trace(loads)
    jumped = trace(loads + [0.0] * 20, times=[*short.times, *[START + 30 * 86400.0 + 10.0 * k for k in range(20)]])
    found = []
    for recorded in (short, jumped):
        levels = Levels(recorded)
        found.append(rates(account(levels, walk(levels, ROOMY)).summary))
    assert found[1]["stops"] == pytest.approx(found[0]["stops"], rel=0.2)


def test_a_fleet_without_a_wrong_stop_says_how_many_could_not_be_judged(tmp_path: Path) -> None:
    """Recordings that end soon after a stop prove nothing."""
    rows = ["node,timestamp,utilization.gpu [%]"]
    for machine in range(3):
        rows += [f"m{machine},{START + 10 * k:.0f},{load}" for k, load in enumerate([90] * 30 + [0] * 100)]
    file = tmp_path / "fleet.csv"
    file.write_text("\n".join(rows) + "\n")
    out = CliRunner().invoke(main, ["replay", str(file), "--policy", POLICY, "--no-timeline"]).stdout
    (line,) = [line for line in out.splitlines() if line.startswith("No stop")]
    assert "3 stops cannot be judged" in line
    (row,) = [line for line in out.splitlines() if line.startswith("work came back within")]
    assert row.endswith("0 (3 unknown)")


def fleet_file(folder: Path, machines: int) -> Path:
    """Machines of which each rests once, for longer the higher its number."""
    rows = ["node,timestamp,utilization.gpu [%]"]
    for machine in range(machines):
        loads = [90] * 30 + [0] * (75 + machine) + [90] * 30
        rows += [f"m{machine:02},{START + 10 * k:.0f},{load}" for k, load in enumerate(loads)]
    file = folder / "fleet.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def test_the_summary_of_many_machines_names_them(tmp_path: Path) -> None:
    """Rates, machines and dates, of the first so many; programs get all, and the numbers are the same with the time line."""
    file, count = fleet_file(tmp_path, SHOWN + 2), SHOWN + 2
    out = CliRunner().invoke(main, ["replay", str(file), "--policy", POLICY, "--no-timeline"]).stdout
    assert "per machine and month: stops" in out
    assert f"Machines with the most wrong stops (10 of {count}; --json has all)" in out
    assert f"Wrong stops, and when work came back (10 of {count}, soonest first; --json has all)" in out
    assert "m00  2025-06-15 15:22 UTC  1m 40s later" in out
    assert f"m{count - 1:02}  work came back" not in out
    whole = CliRunner().invoke(main, ["replay", str(file), "--policy", POLICY]).stdout
    assert out.split("What happened next")[1] == whole.split("What happened next")[1]
    said = json.loads(CliRunner().invoke(main, ["replay", str(file), "--policy", POLICY, "--json"]).stdout)
    fleet = said["policies"][0]["fleet"]
    assert len(fleet["hit_most"]) == len(fleet["wrong_stops"]) == count
    assert fleet["wrong_stops"][0] == {"machine": "m00", "at": START + 950, "back": START + 1050, "after": 100.0}


def test_without_the_time_line_programs_get_the_same_numbers(tmp_path: Path) -> None:
    """The decisions are null, and everything that is counted stands there."""
    asked = ["replay", str(fleet_file(tmp_path, 3)), "--policy", POLICY, "--json"]
    whole, short = (json.loads(CliRunner().invoke(main, [*asked, *more]).stdout) for more in ([], ["--no-timeline"]))
    machines = short["policies"][0]["machines"]
    assert [(machine["decisions"], machine["steps"]) for machine in machines] == [(None, None)] * 3
    for machine, other in zip(machines, whole["policies"][0]["machines"], strict=True):
        assert other["decisions"]
        machine.update(decisions=other["decisions"], steps=other["steps"])
    assert short == whole


def test_one_machine_has_no_list_of_machines(tmp_path: Path) -> None:
    """Its time line says it all."""
    out = CliRunner().invoke(main, ["replay", str(fleet_file(tmp_path, 1)), "--policy", POLICY]).stdout
    assert "most wrong stops" not in out
    assert "machine and month" not in out
