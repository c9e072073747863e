"""A dry run has no effect: whatever is configured, nothing is run, tagged, recorded or asked for that changes anything."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clouds.core.conftest import EXAMPLE, Rented
from tests.clouds.core.test_store import Store, store
from tests.contract.cloud_server import Cloud

__all__ = ["store"]


def everything(rented: Rented, store: Store, mode: str) -> dict[str, Any]:
    """Each place and program that an incident could reach."""
    rented.sink = {"url": store.url, "method": "PUT", "tag": True}
    script = f"echo ran >> {rented.root / 'ran'}"
    hook = {"pre_stop": ["/bin/sh", "-c", script], "timeout": 20}
    return {"mode": mode, "hook": hook, "heartbeat": {"tag": True}, "settings": {"run": ["/bin/sh", "-c", script]}}


def traces(rented: Rented, cloud: Cloud, store: Store) -> list[str]:
    """What it left in the world."""
    sent = [call.split("?")[0] for call in cloud.calls if not call.startswith("GET")]
    return [*sent, *store.objects, *(["ran"] if (rented.root / "ran").exists() else [])]


@pytest.mark.parametrize("mode", ["dry-run", "LIVE", pytest.param("", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", ["plan", "act", "hook", "confirm"])
@pytest.mark.parametrize("action", ["stop", "command", pytest.param("terminate", marks=pytest.mark.thorough)])
def test_no_job_of_a_dry_run_leaves_a_trace(
    rented: Rented, cloud: Cloud, store: Store, kind: str, action: str, mode: str
) -> None:
    """Not even when a guard that is wrong says *go*; anything but the exact word is a dry run."""
    answers = rented.ask(kind, action, **everything(rented, store, mode))
    assert {"plan", "outcome"} & set(answers)
    assert traces(rented, cloud, store) == []


def test_the_same_job_in_live_mode_leaves_all_of_them(rented: Rented, cloud: Cloud, store: Store) -> None:
    """Else the test above would prove nothing."""
    rented.ask("act", "stop", **everything(rented, store, "live"))
    found = traces(rented, cloud, store)
    assert found[0] == "PUT /machines/m-42/tags/costguard-incident"
    assert found[1] == "POST /machines/m-42/stop"
    assert (len(found), found[-1]) == (5, "ran")


def beat(rented: Rented, mode: str) -> dict[str, object]:
    """What the worker of the heartbeat says when it is given the tag."""
    job = rented.job("plan")
    tag = {name: job[name] for name in ("providers", "cloud", "host")}
    record = {"kind": "heartbeat", "state": "IDLE", "at": 1927994400.0}
    asked = {"settings": {}, "record": record, "deadline": 20, "tag": tag, "mode": mode}
    done = subprocess.run(
        [sys.executable, "-m", "costguard.actions.beat"], input=json.dumps(asked) + "\n", text=True,
        capture_output=True, check=False, timeout=30, env={**os.environ, "PYTHONPATH": str(EXAMPLE)},
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert isinstance(said, dict)
    return said


def test_a_sign_of_life_is_written_into_no_tag(rented: Rented, cloud: Cloud, tmp_path: Path) -> None:
    """The worker refuses too, should a guard ask for it."""
    assert "dry run" in str(beat(rented, "dry-run")["error"])
    assert (cloud.calls, cloud.tags) == ([], {})
    assert beat(rented, "live") == {"error": ""}
    assert set(cloud.tags) == {"costguard-heartbeat"}
