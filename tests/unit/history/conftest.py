"""Batches as the guard makes them."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from costguard.history.job import Batch, EventRow, GpuMinute, MachineMinute

NOW = 1_790_000_000.0


def batch(path: object, name: str = "b1", **changes: Any) -> Batch:
    """For this file, with one minute of one GPU and one event; rows may be given as lists."""
    minute = int(NOW) // 60 * 60
    rows: dict[str, list[Any]] = {
        "gpus": [[minute, "a", 60.0, 0.0, 0.0, 0.5, 1.0]],
        "machine": [[minute, 60.0, 0.0, 0.0]],
        "events": [["x-i1", NOW, "told", json.dumps({"effect": "m1", "name": "warning", "facts": {}})]],
    }
    kinds: dict[str, Any] = {"gpus": GpuMinute, "machine": MachineMinute, "events": EventRow}
    typed = {part: tuple(kinds[part](*row) for row in changes.pop(part, rows[part])) for part in kinds}
    return Batch(path=str(path), batch=name, instance="i-1", wall=NOW, dated=True, **typed)._replace(**changes)


@pytest.fixture
def central_europe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone with summer time, without the system's time zone files."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
