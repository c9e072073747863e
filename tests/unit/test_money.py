"""Money beside hours, wherever people look: an estimate with its price and origin, and nothing where no price is known."""

import calendar
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from costguard.cli import idle_cost
from costguard.cli.main import main
from costguard.history import store
from costguard.money import given, rate
from tests.unit.cli.test_status_view import NOW, report, shown
from tests.unit.history.conftest import batch

HOUR = 3600.0
LIST = {"amount": 4.0, "currency": "EUR", "date": "2026-07-20", "source": "the price list", "kind": "list"}


def priced(found: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A report with what the cloud says of the price."""
    base = report(**changes)
    return {**base, "agent": {**base["agent"], "cloud": {"price": found}}}


# -- status --------------------------------------------------------------------------------------------------


def test_status_says_what_this_idleness_has_cost() -> None:
    """Twelve minutes at 7.50: the amount, the time, the price and that it is an estimate."""
    screen = shown(price_per_hour=7.5, currency="USD")
    assert "Idle cost      about 1.50 USD so far, quiet for 12m (an estimate: 7.50 USD an hour, as set" in screen


def test_the_price_of_the_cloud_has_its_date_and_source() -> None:
    """Whoever doubts the amount sees what it rests on."""
    words = idle_cost.words(priced(LIST))
    assert words == (
        "about 0.80 EUR so far, quiet for 12m (an estimate: 4.00 EUR an hour, list price of 2026-07-20 (source: the price list))"
    )
    assert idle_cost.words(priced({**LIST, "kind": "limit"})).startswith("at most 0.80 EUR so far")


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"amount": 0.0, "date": "2026-07-20"},
        {"amount": 4.0},
        {"amount": "4", "date": "x"},
        {"amount": True, "date": "x"},
    ],
)
def test_an_unknown_price_shows_no_money(found: dict[str, Any]) -> None:
    """Never 0: that would say that it costs nothing."""
    assert idle_cost.words(priced(found)) == ""
    assert idle_cost.with_cost(priced(found))["idle_cost"] is None
    assert "Idle cost" not in shown()


@pytest.mark.parametrize("state", ["works", "unknown"])
def test_a_machine_that_is_not_idle_has_no_idle_cost(state: str) -> None:
    """One GPU that works, or that nobody can see, makes it none of all."""
    gpu = report()["gpus"][0]
    both = [gpu, {**gpu, "state": state}]
    assert idle_cost.words(priced(LIST, gpus=both)) == ""
    assert idle_cost.words(priced(LIST, gpus=[])) == ""


def test_the_youngest_quiet_counts() -> None:
    """The machine is idle since its last GPU went quiet."""
    gpu = report()["gpus"][0]
    both = [gpu, {**gpu, "since": NOW - 360.0}]
    assert idle_cost.with_cost(priced(LIST, gpus=both))["idle_cost"] == {
        "seconds": 360.0, "amount": 0.4, "currency": "EUR", "estimate": True, "at_most": False, "price_per_hour": 4.0,
        "price_source": "list price of 2026-07-20 (source: the price list)",
    }  # fmt: skip


# -- history -------------------------------------------------------------------------------------------------


def at(text: str) -> float:
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M")))


def recorded(folder: Path, **facts: Any) -> None:
    """Two quiet hours, and a stop from 22:00 to 04:00 of the next day."""
    start = at("2026-11-20 12:00")
    minutes = [[start + 60 * i, 0.0, 60.0, 0.0] for i in range(120)]
    known = {"price_per_hour": 3.0, "currency": "EUR", "saved": 18.0} | facts
    closed = {"off_seconds": 6 * HOUR, "stopped_wall": at("2026-11-20 22:00"), "started_wall": at("2026-11-21 04:00")}
    told = [
        "x-i1",
        at("2026-11-21 04:00"),
        "told",
        json.dumps({"effect": "m", "name": "closed", "facts": known | closed}),
    ]
    store.save(batch(folder / "history.sqlite", wall=at("2026-11-21 05:00"), gpus=[], machine=minutes, events=[told]))


def history(folder: Path, *more: str) -> Result:
    arguments = ["history", "--since", "2026-11-01", "--state-dir", str(folder), *more]
    return CliRunner().invoke(main, arguments, env={"TZ": "UTC"})


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_history_has_hours_and_money_idle_and_saved_of_each_day(tmp_path: Path) -> None:
    """A time off is split at midnight; its price is that of the messages."""
    recorded(tmp_path)
    lines = history(tmp_path).stdout.splitlines()
    first = next(line for line in lines if line.startswith("2026-11-20 ") and " h " in line).split()
    assert first[-8:] == ["2.0", "h", "about", "6.00", "EUR", "about", "6.00", "EUR"]
    second = next(line for line in lines if line.startswith("2026-11-21 ") and " h " in line).split()
    assert second[-6:] == ["4.0", "h", "–", "about", "12.00", "EUR"]
    assert any("idle cost: quiet hours, an estimate: 3.00 EUR an hour, as used on 2026-11-21" in line for line in lines)
    days = json.loads(history(tmp_path, "--json").stdout)["days"]
    assert days[0]["idle_cost"]["amount"] == 6.0
    assert days[0]["idle_cost"]["estimate"] is True
    assert (days[0]["off"], days[0]["saved"]) == (2 * HOUR, {"amount": 6.0, "currency": "EUR", "estimate": True})
    assert (days[1]["off"], days[1]["saved"]["amount"]) == (4 * HOUR, 12.0)


def test_what_counts_as_saved_ends_where_the_agent_ended_it(tmp_path: Path) -> None:
    """Of six hours off one was counted (`saving_limit`): the hours are facts, the money is of the first hour."""
    recorded(tmp_path, saved=3.0)
    days = json.loads(history(tmp_path, "--json").stdout)["days"]
    assert [day["off"] for day in days[:2]] == [2 * HOUR, 4 * HOUR]
    assert [day["saved"]["amount"] for day in days[:2]] == [3.0, 0.0]


def test_history_without_a_price_says_so(tmp_path: Path) -> None:
    """Hours are there all the same, no amount is 0, and it says how to get one."""
    recorded(tmp_path, price_per_hour=None, saved=None)
    said = history(tmp_path).stdout
    assert "The price is unknown" in said
    assert "about" not in said
    assert "6.0 h" in said
    day = json.loads(history(tmp_path, "--json").stdout)["days"][0]
    assert (day["idle_cost"], day["saved"], day["off"]) == (None, None, 2 * HOUR)
    assert "about 5.00 USD" in history(tmp_path, "--price", "2.50").stdout
    assert history(tmp_path, "--price", "free").exit_code == 2


def test_history_begins_with_its_first_record(tmp_path: Path) -> None:
    """Not with the date that was asked for: the machine was not there then."""
    recorded(tmp_path)
    assert "since 2026-11-20 12:00 (all times local, UTC)" in " ".join(history(tmp_path).stdout.split())
    assert json.loads(history(tmp_path, "--json").stdout)["since"] == at("2026-11-20 12:00")


# -- replay --------------------------------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """One hour of work and nine of nothing."""
    rows = ["timestamp, index, utilization.gpu [%]"]
    rows += [f"2026/11/20 {10 + i // 60:02}:{i % 60:02}:00, 0, {90 if i < 60 else 0} %" for i in range(600)]
    (tmp_path / "trace.csv").write_text("\n".join(rows) + "\n")
    return str(tmp_path / "trace.csv")


def test_replay_has_money_beside_hours(recording: str) -> None:
    """From --price or the configuration; the last line says what it rests on."""
    arguments = ["replay", recording, "--no-timeline", "--set", "kill_duration=30m"]
    plain = CliRunner().invoke(main, arguments).stdout
    assert "about" not in plain
    for more in (["--price", "2 EUR"], ["--set", "price_per_hour=2", "--set", "currency=EUR"]):
        said = CliRunner().invoke(main, [*arguments, *more]).stdout
        idle = next(line for line in said.splitlines() if line.startswith("idle "))
        assert re.search(r"9\.0 h, about 1[78]\.\d\d EUR$", idle), idle
        assert "money: an estimate: 2.00 EUR an hour" in said
    answer = json.loads(CliRunner().invoke(main, [*arguments, "--price", "2 EUR", "--json"]).stdout)
    money, summary = answer["policies"][0]["money"], answer["policies"][0]["summary"]
    assert (money["currency"], money["estimate"]) == ("EUR", True)
    for name in ("idle", "recovered", "recovered_clean", "recovered_interrupted"):
        assert money[name] == pytest.approx(2.0 * summary[name], abs=0.001)
    assert json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)["policies"][0]["money"] is None


def test_replay_compares_many_policies_with_money(recording: str) -> None:
    """The flat table has a column for it."""
    arguments = ["replay", recording, "--no-timeline", "--price", "2"]
    for minutes in range(30, 80, 10):
        arguments += ["--policy", f"kill_duration={minutes}m"]
    said = CliRunner().invoke(main, arguments).stdout
    assert "recovered money" in said
    assert "USD" in said


# -- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "free", "0", "-1", "2,50", "2 euros", "1e3", "99999999999"])
def test_what_is_no_price(text: str) -> None:
    """Told in words; nothing is guessed."""
    with pytest.raises(ValueError, match="not a price per hour"):
        given(text)


def test_the_owners_price_goes_before_the_clouds() -> None:
    """Unless both are the same number: then it is the cloud's, with its date."""
    own = rate(5.0, "USD", LIST)
    same = rate(4.0, "EUR", LIST)
    assert own is not None
    assert same is not None
    assert (own.per_hour, own.currency) == (5.0, "USD")
    assert "list price of 2026-07-20" in same.source
    assert rate(None, "USD", {}) is None
