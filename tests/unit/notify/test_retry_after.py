"""Until when an address wants to be left alone, as every delivery reads it."""

import os
from pathlib import Path

import pytest

from costguard.clocks import boot_clock
from costguard.notify.exchange import Exchange
from costguard.notify.retry_after import FOLDER, LONGEST_WAIT_SECONDS, RetryAfter


def test_one_delivery_says_and_all_others_know(tmp_path: Path) -> None:
    """Of this address alone; the longest wait counts, and nobody else may read which channels there are."""
    until = boot_clock() + 40.0
    RetryAfter(str(tmp_path), "team", 1).keep(until)
    RetryAfter(str(tmp_path), "team", 1).keep(until - 10.0)
    assert RetryAfter(str(tmp_path), "team", 1).until == until
    assert RetryAfter(str(tmp_path), "team", 0).until == 0.0
    assert RetryAfter(str(tmp_path), "mail", 1).until == 0.0
    assert os.stat(tmp_path / FOLDER).st_mode & 0o077 == 0
    assert len(list((tmp_path / FOLDER).iterdir())) == 1


def test_an_exchange_that_has_begun_hears_of_it(tmp_path: Path) -> None:
    """It looks each time, not only at its beginning."""
    exchange = Exchange()
    exchange.retry_after = RetryAfter(str(tmp_path), "team")
    assert exchange.wait == 0.0
    RetryAfter(str(tmp_path), "team").keep(boot_clock() + 40.0)
    assert 30.0 < exchange.wait <= 40.0


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "1e99", "ahead"])
def test_what_cannot_be_so_is_nothing(tmp_path: Path, text: str) -> None:
    """A file that was cut off, or one of another boot, whose clock was ahead."""
    left = RetryAfter(str(tmp_path), "../team")
    left.keep(boot_clock() + 10.0)
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_text(str(boot_clock() + LONGEST_WAIT_SECONDS + 600.0) if text == "ahead" else text)
    assert left.until == 0.0
    left.keep(boot_clock() + 20.0)
    assert left.until > boot_clock()


@pytest.mark.parametrize("runtime", ["", "/proc/nowhere"])
def test_without_a_place_nothing_is_known(runtime: str) -> None:
    """And nothing breaks."""
    RetryAfter(runtime, "team").keep(boot_clock() + 10.0)
    assert RetryAfter(runtime, "team").until == 0.0
