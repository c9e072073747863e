"""Clocks, and whether the date can be trusted."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from costguard.clocks import boot_clock
from costguard.host.clock import CHECK_SECONDS, SYNCED_CHECK_SECONDS, Clock
from costguard.process.command_lines import command_lines

PATIENCE = 20.0


def start(argv: list[str]) -> int | None:
    try:
        return os.posix_spawn(argv[0], argv, os.environ)
    except OSError:
        return None


def until(clock: Clock, done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        clock.check()


@pytest.mark.parametrize(("code", "synced"), [(0, True), (1, False), (2, None), (99, None)])
def test_the_answer_of_the_check_counts(code: int, synced: bool | None) -> None:
    """Yes, no, cannot tell; anything else is "cannot tell". Before the first answer nothing is known."""
    clock = Clock([sys.executable, "-I", "-S", "-c", f"raise SystemExit({code})"], start)
    assert clock.now().synced is None
    clock.check()
    assert clock._check is not None
    until(clock, lambda: clock._check is None)
    assert clock.now().synced is synced
    assert clock._due - boot_clock() == pytest.approx(SYNCED_CHECK_SECONDS if synced else CHECK_SECONDS, abs=60.0)
    clock.check()
    assert clock._check is None  # the next question comes later


def test_a_check_that_cannot_start_is_no_error() -> None:
    """No process: the date stays unproven, and it is tried again later."""
    clock = Clock(["/nowhere/python"], start)
    clock.check()
    assert clock.now().synced is None


def test_a_resume_makes_the_date_unproven() -> None:
    """Boot clock minus monotonic clock jumped: the date comes from the battery clock, the kernel is asked again."""
    clock = Clock([sys.executable, "-I", "-S", "-c", ""], start)
    until(clock, lambda: clock.now().synced is True)
    clock._gap -= 60  # as after a minute of sleep
    assert clock.now().synced is None
    until(clock, lambda: clock.now().synced is True)


@pytest.mark.parametrize(("seconds", "asked"), [(0.5, False), (-0.5, False), (3600.0, True), (-3600.0, True)])
def test_a_date_that_was_set_is_asked_about_at_once(seconds: float, asked: bool) -> None:
    """Once: from then on it is the date."""
    clock = Clock([sys.executable, "-I", "-S", "-c", ""], start)
    until(clock, lambda: clock.now().synced is True)
    until(clock, lambda: clock._check is None)
    clock._epoch -= seconds
    clock.now()
    assert (clock._due <= boot_clock()) is asked
    until(clock, lambda: clock._due > boot_clock() and clock._check is None)
    clock.now()
    assert clock._due > boot_clock()


def test_the_clocks_are_the_kernels() -> None:
    """Boot and monotonic clocks differ by the suspended time only."""
    now = Clock(["/nowhere/python"], start).now()
    assert abs(now.boot - boot_clock()) < 5
    assert abs(now.mono - time.monotonic()) < 5
    assert abs(now.wall - time.time()) < 5


def test_the_kernel_can_be_asked() -> None:
    """The real question has one of the three answers, without a word on standard error."""
    done = subprocess.run(command_lines()["clock"], capture_output=True, timeout=30, check=False)
    assert done.returncode in (0, 1, 2)
    assert done.stderr == b""
