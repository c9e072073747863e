"""The installed agent on the second stand-in library: very old, very new, and with next to nothing."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.testing.nvml import write_sysfs

from .conftest import Agent
from .test_agent import acted, command

pytestmark = pytest.mark.thorough

SOURCE = Path(__file__).parents[1] / "other_nvml.c"
IDLE, WORKING = "0 0 70000 0 0", "90 0 500000 2 0"


@pytest.fixture(params=["OLD", "NEW", "BARE"])
def gpus(request: pytest.FixtureRequest, agent: Agent) -> Callable[..., None]:
    """Moves the GPUs of the other library, which the agent is given."""
    folder = agent.folder / "other"
    folder.mkdir()
    library, state = folder / "libnvidia-ml.so.1", folder / "gpus"
    flags = ["-std=gnu11", "-shared", "-fPIC", f"-D{request.param}", f"-Wl,-soname,{library.name}"]
    subprocess.run(["cc", *flags, "-o", library, SOURCE], check=True)
    agent.environment |= {"LD_LIBRARY_PATH": str(folder), "OTHER_NVML": str(state)}
    if request.param == "BARE":  # it cannot say which GPU of the bus is which
        agent.settings.append(f"host.sysfs={write_sysfs(folder / 'sys', [])}")

    def move(*lines: str) -> None:
        partial = state.with_suffix(".new")
        partial.write_text("".join(f"{line}\n" for line in lines))
        partial.replace(state)

    move(IDLE, IDLE)
    return move


def test_it_arms_goes_blind_sees_again_and_acts(agent: Agent, gpus: Callable[..., None]) -> None:
    """Work, a GPU that fails, one that the driver lists no more, and at last quiet: one action, at the end."""

    def until(*states: str) -> None:
        agent.until(lambda report: [gpu["state"] for gpu in report["gpus"]] == list(states), 30.0)

    agent.start(*command(agent.folder))
    gpus(WORKING, WORKING)
    agent.until(lambda report: bool(report["armed"]))
    for code in (999, 15, 3):
        gpus(IDLE, f"0 0 70000 0 {code}")
        until("quiet", "unknown")
        time.sleep(3)
        assert acted(agent.folder) == 0
        gpus(WORKING, WORKING)
        until("works", "works")
    gpus(IDLE)
    until("quiet", "unknown")
    gpus(IDLE, IDLE)
    agent.until(lambda report: report["phase"] == "DONE", 30.0)
    assert acted(agent.folder) == 1
