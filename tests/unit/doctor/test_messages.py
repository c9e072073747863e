"""What doctor says of a channel: ok only where a message is known to arrive at the address of now."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from costguard.doctor import messages
from costguard.doctor.finding import CheckResult
from costguard.history import FILE, store
from costguard.notify import tested
from tests.unit.history.conftest import batch

TESTED_AT = 1_790_000_000.0


class Bench:
    """A configuration with one channel beyond the machine, whose address stands in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "team.urls"
        self.channel: dict[str, Any] = {"urls": f"file:{self.file}", "level": "info", "kinds": []}
        self.state = folder / "state"
        self.effective: dict[str, Any] = {
            "notify": {"local": [], "channels": {"team": self.channel}},
            "paths": {"state": str(self.state)},
            "policy": {"mode": "live"},
        }
        self.places = {"procfs": str(folder / "proc"), "devfs": str(folder / "dev")}
        self.write("json://chat.example.org/s3cret")

    def write(self, *lines: str) -> None:
        """The addresses that the channel has from now on."""
        self.file.write_text("".join(f"{line}\n" for line in lines))
        self.file.chmod(0o600)

    def test(self, *urls: str, arrived: bool = True) -> None:
        """A test message went to these addresses."""
        assert tested.keep(str(self.state), {"team": self.channel}, {"team": arrived}, TESTED_AT, {"team": urls})

    def tell(self, name: str, wall: float, **fate: object) -> None:
        """The agent told of something, and this is what became of it: ``proof`` names who took it, ``detail`` why others did not."""
        events = [
            ["x-i1", wall, "told", json.dumps({"effect": name, "name": "warning", "facts": {}})],
            ["x-i1", wall, "outcome", json.dumps({"effect": name, **fate})],
        ]
        store.save(batch(self.state / FILE, name, events=events))

    def again(self, wall: float, **fate: object) -> None:
        """A message was sent again."""
        row = ["x-i1", wall, "delivery", json.dumps({"name": "warning", "effect": "m", **fate})]
        store.save(batch(self.state / FILE, f"again-{wall}", events=[row]))

    def checks(self) -> list[CheckResult]:
        return [
            check
            for check in messages.checks(self.effective, self.places, None)
            if not check.text.startswith("messages have no picture")
        ]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@contextmanager
def ordinary_user(*closed: Path) -> Iterator[None]:
    """Somebody who may not read these files."""
    user = os.geteuid()
    for path in closed:
        path.chmod(0)  # where the tests run without root, this closes it
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_test_counts_for_the_address_that_it_went_to(bench: Bench) -> None:
    """Order and comments are not part of it; another address, one more or one less was never tested."""
    first, second = "json://chat.example.org/s3cret", "json://pager.example.org/x"
    bench.write(first, second)
    bench.test(first, second)
    assert [check.level for check in bench.checks()] == ["ok"]
    bench.write("# both teams", second, first)
    assert [check.level for check in bench.checks()] == ["ok"]
    for lines in (("json://chat.example.org/other", second), (first,), (first, second, "json://c.example.org/")):
        bench.write(*lines)
        found = bench.checks()[0]
        assert found.level == "warn"
        assert found.text.startswith("team: its address is not the one that was tested on 2026-")
        assert found.hint == "sudo costguard notify test --channel team"


@pytest.mark.parametrize("reference", ["env:TEAM", "credential:team", "file:{file}"])
def test_what_doctor_cannot_compare_it_does_not_call_tested(bench: Bench, reference: str) -> None:
    """The agent's own variables, and a test of which no address is known; no failure is claimed either."""
    bench.channel["urls"] = reference.format(file=bench.file)
    bench.test()
    (found,) = bench.checks()
    assert found.level == "note"
    assert found.text.endswith("doctor cannot tell whether its address is still the one tested")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user must be somebody else")
def test_who_may_not_read_the_addresses_is_told_so(bench: Bench) -> None:
    """Doctor of an ordinary user neither says ok nor that nobody would be reached."""
    bench.test("json://chat.example.org/s3cret")
    with ordinary_user(bench.file, bench.state / tested.FILE):
        (found,) = bench.checks()
    assert found.level == "note"
    assert found.text == "team: this user may not read its addresses, so doctor cannot tell whether they were tested"


def test_a_test_that_arrived_is_no_proof_once_apprise_is_broken(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade of Python, or an installation that was cut off."""
    bench.test("json://chat.example.org/s3cret")
    assert [check.level for check in bench.checks()] == ["ok"]
    broken = tmp_path / "packages" / "apprise"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('half of it is missing')\n")
    monkeypatch.syspath_prepend(str(broken.parent))  # children look where their parent does
    found = bench.checks()[0]
    assert found.level == "bad"
    assert found.text == (
        "team: nothing can be sent: apprise cannot be used: ImportError (reinstall costguard in its environment)"
    )


REFUSED = "team: JSON: 127.0.0.1 could not be reached (Connection refused) (check this machine's network and proxy)"


def test_a_channel_that_lost_the_last_message_is_named(bench: Bench) -> None:
    """With when, why and what to do, though a test arrived before; what arrives later ends it, as does a new test."""
    bench.test("json://chat.example.org/s3cret")
    bench.tell("m1", TESTED_AT + 60.0, status="delivered", proof="team: JSON")
    assert [check.level for check in bench.checks()] == ["ok"]
    bench.tell("m2", TESTED_AT + 120.0, status="failed", detail=REFUSED)
    lost = bench.checks()[0]
    date = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(TESTED_AT + 120.0))
    assert (lost.level, lost.text) == (
        "warn",
        f"team: the last message, on {date}, did not arrive: {REFUSED.removeprefix('team: ')}",
    )
    assert "sudo costguard notify test --channel team" in lost.hint
    assert "costguard history x-i1" in lost.hint
    bench.again(TESTED_AT + 180.0, reached={"team": "JSON"}, failed={})
    assert [check.level for check in bench.checks()] == ["ok"]
    bench.again(TESTED_AT + 240.0, reached={}, failed={"team": "gone"})
    assert bench.checks()[0].level == "warn"
    assert tested.keep(
        str(bench.state),
        {"team": bench.channel},
        {"team": True},
        TESTED_AT + 300.0,
        {"team": ["json://chat.example.org/s3cret"]},
    )
    assert [check.level for check in bench.checks()] == ["ok"]


@pytest.mark.parametrize(
    ("fate", "levels"),
    [
        ({"status": "delivered", "proof": "pager: X", "detail": REFUSED}, ["warn", "warn"]),
        ({"status": "delivered", "proof": "team: JSON", "detail": "pager: team; team2: no"}, ["ok"]),
        ({"status": "delivered", "proof": "team: JSON", "detail": "team: JSON, address 2: HTTP 404"}, ["warn"]),
        ({"status": "failed", "detail": "the worker failed: it did not answer in time"}, ["warn", "warn"]),
        ({"status": "failed", "detail": "no channel: nobody asked for messages of this kind"}, ["ok"]),
    ],
    ids=["another took it", "another lost it", "one address", "no worker", "not asked"],
)
def test_each_channel_has_its_own_fate(bench: Bench, fate: dict[str, object], levels: list[str]) -> None:
    """One that took it says nothing of another; one dead address of two is one too many."""
    bench.test("json://chat.example.org/s3cret")
    bench.tell("m1", TESTED_AT + 60.0, **fate)
    assert [check.level for check in bench.checks()] == levels


def test_what_a_server_says_is_no_other_channels_fate(bench: Bench) -> None:
    """Its answer may look like the line of one, wherever it stands."""
    bench.test("json://chat.example.org/s3cret")
    said = "E-Mail: mail.example.org refuses the recipient (550 no; team: JSON; team)"
    fate = {"proof": "team: JSON", "detail": f"mail: {said}", "reached": {"team": "JSON"}, "failed": {"mail": said}}
    bench.tell("m1", TESTED_AT + 60.0, status="delivered", **fate)
    assert [check.level for check in bench.checks()] == ["ok"]
    bench.tell("m2", TESTED_AT + 120.0, status="failed", detail="team: x", reached={}, failed={"team": f"550 {said}"})
    assert bench.checks()[0].text.endswith(f"550 {said}")


def test_a_message_to_another_channel_proves_nothing(bench: Bench) -> None:
    """Only what a channel took itself ends its failure."""
    bench.effective["notify"]["channels"]["pager"] = bench.channel
    bench.tell("m1", TESTED_AT, status="failed", detail=REFUSED)
    bench.tell("m2", TESTED_AT + 60.0, status="delivered", proof="pager: X")
    assert "team: the last message, on " in bench.checks()[0].text


def test_the_reason_of_one_channel_ends_where_another_begins(bench: Bench) -> None:
    """Also where that is a channel of this machine."""
    bench.effective["notify"]["local"] = ["terminal"]
    bench.tell("m1", TESTED_AT, status="failed", detail=f"{REFUSED}; terminal: it has none")
    assert bench.checks()[1].text.endswith(REFUSED.removeprefix("team: "))


def test_nobody_is_reached_only_where_that_is_known(bench: Bench) -> None:
    """A channel that has just taken a real message reaches people, whether it was tested or not; a changed address may not."""
    now = time.time() + 60.0
    assert [check.level for check in bench.checks()] == ["warn", "warn"]
    bench.tell("m1", now, status="delivered", proof="team: JSON")
    (found,) = bench.checks()
    assert found.level == "note"
    assert found.text.startswith("team: took a message on ")
    bench.tell("m2", now - 7200.0, status="delivered", proof="team: JSON")
    assert [check.level for check in bench.checks()] == ["warn", "warn"], (
        "it took a message before its address was written"
    )


@pytest.mark.parametrize("settings", [{"level": "critical"}, {"kinds": ["summary"]}])
def test_a_channel_that_gets_no_warnings_reaches_nobody_with_one(bench: Bench, settings: dict[str, Any]) -> None:
    """That a test arrives there says nothing of warnings."""
    bench.channel |= settings
    bench.test("json://chat.example.org/s3cret")
    found = bench.checks()
    assert [check.level for check in found] == ["ok", "warn"]
    assert found[1].text.startswith("a warning would reach only the journal now; ")
    assert found[1].hint.startswith('no channel asks for warnings: give one level "warning"; ')


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"grace": 600.0, "unreached_wait": 1800.0}, "after 3 tries the countdown goes on, 30m longer than otherwise"),
        ({"grace": 7200.0, "unreached_wait": 1800.0}, "after 3 tries the countdown goes on, 2h longer than otherwise"),
        ({"grace": 600.0, "unreached_wait": 0.0}, "after 3 tries the countdown goes on anyway"),
        ({"grace": 0.0, "unreached_wait": 1800.0}, "after 3 tries the countdown goes on anyway"),
    ],
)
def test_the_longer_countdown_that_nobody_hears_of_is_named(bench: Bench, policy: dict[str, float], words: str) -> None:
    """As long as the engine makes it: at least the grace once more."""
    bench.effective["policy"] |= policy
    said = bench.checks()[-1].text
    assert said == f"a warning may reach only the journal now; {words}"


def test_what_an_action_says_is_no_delivery(bench: Bench) -> None:
    """An outcome counts only for what was told."""
    bench.test("json://chat.example.org/s3cret")
    row = ["x-i1", TESTED_AT + 60.0, "outcome", json.dumps({"effect": "a1", "status": "failed", "detail": REFUSED})]
    store.save(batch(bench.state / FILE, events=[row]))
    assert [check.level for check in bench.checks()] == ["ok"]


def test_a_history_that_cannot_be_read_is_no_good_news(bench: Bench) -> None:
    """What became of the last messages is then unknown, and said to be."""
    bench.test("json://chat.example.org/s3cret")
    (bench.state / FILE).write_text("no database, but long enough to be read as the head of one" * 9)
    assert [check.level for check in bench.checks()] == ["ok", "note"]
    assert bench.checks()[1].text.startswith("whether the last messages arrived is unknown: ")
