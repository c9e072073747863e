"""Background work and the guard of the machine, beside each other: the work keeps no machine up, whoever comes does."""

import os
import subprocess
import sys
from typing import Any

import pytest

from costguard.background import INITIAL_NAMESPACE
from costguard.testing.nvml import Process

from .conftest import PATIENCE, Agent
from .filled import QUICK, WORK, somebody
from .guarded import until


def shown(report: dict[str, Any]) -> tuple[str, str]:
    """What the first GPU is, and by which words."""
    gpu = report["gpus"][0]
    return gpu["state"], gpu["words"] or ""


pytestmark = pytest.mark.skipif(
    os.readlink("/proc/self/ns/pid") != INITIAL_NAMESPACE, reason="in a container no mark means anything"
)


@pytest.mark.parametrize("idle", [True, False])
def test_background_work_is_idle_where_the_owner_says_so(agent: Agent, idle: bool) -> None:
    """Stressor: filler activity is excluded from the cost verdict (switchable); somebody beside it is work, an unknown one unknown."""
    agent.start(f"host.background_is_idle={str(idle).lower()}")
    fill = subprocess.Popen(
        [sys.executable, "-m", "costguard", "fill", *QUICK, "--gpus", "0", "--", sys.executable, "-S", "-c", WORK],
        env=agent.environment, cwd=agent.folder, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    begun = agent.folder / "begun"
    until(lambda: begun.exists() and begun.read_text())
    work = Process(int(begun.read_text().split()[0]), sm=95)
    agent.gpus.set(0, util=95, processes=[work])
    agent.until(lambda report: shown(report)[0] == ("quiet" if idle else "works") and "95 %" in shown(report)[1])
    if idle:
        assert shown(agent.report())[1].startswith("background work alone (")
        agent.gpus.set(0, processes=[Process(4_194_303), work])
        agent.until(lambda report: "process 4194303 cannot be identified" in shown(report)[1])
        with somebody() as other:
            agent.gpus.set(0, processes=[Process(other.pid, sm=95)])
            agent.until(lambda report: shown(report)[0] == "works")
    fill.terminate()
    assert fill.wait(PATIENCE) == 0
