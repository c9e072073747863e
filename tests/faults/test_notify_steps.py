"""One stop is read twice, as it begins and as it ended; who missed the beginning, or asked for each step, reads the steps."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from costguard.history.story import _unsent
from tests.clouds.telling import Chat, chat

GOOD, BAD = "team", "pager"


def tell(
    folder: Path, server: Chat, kind: str, channels: dict[str, dict[str, object]], incident: str = "i1",
    level: str = "warning", **facts: object,
) -> dict[str, Any]:  # fmt: skip
    """What the worker answers to a message of the incident; ``pager`` has no address."""
    for name in channels:
        if name != BAD:
            (folder / name).write_text(f"json://127.0.0.1:{server.server_port}/{name}\n")
            (folder / name).chmod(0o600)
    own = {name: {"urls": f"file:{folder / name}", "level": "info", **more} for name, more in channels.items()}
    job = {
        "message": {"id": kind, "kind": kind, "level": level, "facts": {"incident": incident, "action": "stop", "mode": "live", **facts}},
        "channels": list(channels), "settings": {"channels": own, "runtime": str(folder)}, "deadline": 40.0,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"],
        input=json.dumps(job).encode() + b"\n", capture_output=True, timeout=60, check=True, env=os.environ,
    )  # fmt: skip
    return {"reached": {}, "failed": {}, **json.loads(done.stdout)}


@pytest.mark.parametrize("step", ["accepted", "stopping"])
def test_who_read_that_it_begins_reads_how_it_ends(tmp_path: Path, step: str) -> None:
    """And the history says why nobody got it."""
    with chat() as server:
        assert list(tell(tmp_path, server, "acting", {GOOD: {}})["reached"]) == [GOOD]
        told = tell(tmp_path, server, step, {GOOD: {}})
        assert (told["failed"], len(server.asked)) == ({}, 1)
        ((name, why),) = told["reached"].items()
        assert _unsent(f"{name}: {why}") == f"not sent: whoever read the start gets the outcome, not each step ({step})"
        assert list(tell(tmp_path, server, "done", {GOOD: {}})["reached"]) == [GOOD]


def test_who_missed_the_beginning_reads_the_next_step(tmp_path: Path) -> None:
    """A channel that failed then, and one of another incident."""
    with chat() as server:
        assert list(tell(tmp_path, server, "acting", {GOOD: {}, BAD: {}})["failed"]) == [BAD]
        told = tell(tmp_path, server, "accepted", {GOOD: {}, BAD: {}})
        assert (list(told["reached"]), list(told["failed"])) == ([], [BAD])
        assert list(tell(tmp_path, server, "accepted", {GOOD: {}}, incident="i2")["reached"]) == [GOOD]


def test_who_asked_for_the_step_gets_it(tmp_path: Path) -> None:
    """Beside one that goes by the level."""
    with chat() as server:
        channels: dict[str, dict[str, object]] = {GOOD: {}, "audit": {"kinds": ["acting", "accepted"]}}
        tell(tmp_path, server, "acting", channels)
        assert list(tell(tmp_path, server, "accepted", channels)["reached"]) == ["audit"]


def test_who_asked_for_the_beginning_and_missed_it_reads_the_end(tmp_path: Path) -> None:
    """A channel for warnings, whose service was away when the stop began: else nobody there hears of it at all."""
    with chat() as server:
        channels: dict[str, dict[str, object]] = {GOOD: {"level": "warning"}, BAD: {"level": "warning"}}
        assert list(tell(tmp_path, server, "acting", channels)["failed"]) == [BAD]
        told = tell(tmp_path, server, "done", channels, level="info")
        assert (list(told["reached"]), list(told["failed"])) == ([], [BAD])
        assert len(server.asked) == 1, "who has read that it begins, and asked for warnings alone"


def test_what_stands_for_another_message_goes_to_whoever_has_not_got_that(tmp_path: Path) -> None:
    """By the kinds of the channel: that one was tried no more, because this one says how it stands."""
    with chat() as server:
        begins: dict[str, dict[str, object]] = {GOOD: {"kinds": ["acting"]}, BAD: {"kinds": ["acting"]}}
        others: dict[str, dict[str, object]] = {"audit": {"kinds": ["held"]}}
        tell(tmp_path, server, "acting", {**begins, **others})
        row = ["acting", "acting", "warning", "i1", None]
        told = tell(tmp_path, server, "accepted", {**begins, **others}, stands_for=[row])
        assert (list(told["reached"]), list(told["failed"])) == ([], [BAD])
        told = tell(tmp_path, server, "accepted", {GOOD: {"kinds": ["acting"]}, **others}, stands_for=[row])
        assert list(told["reached"]) == ["no channel"]
        for nonsense in (7, [7], [["a", "b"]], None):
            assert list(tell(tmp_path, server, "accepted", others, stands_for=nonsense)["reached"]) == ["no channel"]
