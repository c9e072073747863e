"""Batches as the guard makes them."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

NOW = 1_790_000_000.0


def batch(name: str = "b1", **changes: Any) -> dict[str, Any]:
    """A batch with one minute of one GPU and one event."""
    minute = int(NOW) // 60 * 60
    return {
        "batch": name,
        "instance": "i-1",
        "wall": NOW,
        "dated": True,
        "gpus": [[minute, "a", 60.0, 0.0, 0.0, 0.5, 1.0]],
        "machine": [[minute, 60.0, 0.0, 0.0]],
        "events": [["x-i1", NOW, "told", json.dumps({"effect": "m1", "name": "warning", "facts": {}})]],
    } | changes


@pytest.fixture
def central_europe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone with summer time, without the system's time zone files."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
