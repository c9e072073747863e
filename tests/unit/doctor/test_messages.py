"""What doctor says of a channel: ok only where a message is known to arrive at the address of now."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from costguard.doctor import messages
from costguard.doctor.finding import CheckResult
from costguard.notify import tested

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
