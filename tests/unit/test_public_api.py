"""The small interface, used as its first users' programs do: imports, names, and readings from a real library."""

import os
import subprocess
import sys
from pathlib import Path

import costguard
from costguard.testing.nvml import NA, Script
from costguard.testing.nvml.script import boottime

PROGRAM = """
from costguard import Sentinel, SentinelState, get_gpu_usage

fired = []
sentinel = Sentinel(
    arm_duration=1, arm_threshold=0.5, kill_duration=2, kill_threshold=0.5, kill_fn=lambda: fired.append(1)
)
print(get_gpu_usage(), get_gpu_usage(device_ids=[0]), get_gpu_usage(device_ids=[0, 1]))
sentinel.tick(get_gpu_usage(device_ids=[0]))
print(sentinel.state is SentinelState.ARMED)
for _ in range(4):
    sentinel.tick(get_gpu_usage(device_ids=[1]))
print(len(fired))
"""

REFUSED = """
from costguard import GpuUnreadableError, get_gpu_usage

try:
    get_gpu_usage(device_ids={ids})
except GpuUnreadableError as error:
    print(error.message)
"""


def run(program: str, environment: dict[str, str]) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_every_public_name_is_there() -> None:
    """`__all__` is sorted, complete, and each name can be imported from the package itself."""
    assert sorted(costguard.__all__) == costguard.__all__ == dir(costguard)
    assert all(getattr(costguard, name) is not None for name in costguard.__all__)


def test_the_seeds_program_runs(tmp_path: Path, nvml_library: Path) -> None:
    """The loop of the first users' README: mean usage of all or some GPUs, armed by work, fired once by quiet."""
    script = Script(tmp_path / "gpus", gpus=2, util=0)
    script.set(0, util=80)
    script.stand(boottime())  # it has always been so: a quick start would otherwise find no sample of it yet
    printed = run(PROGRAM, script.environment(nvml_library))
    assert printed.splitlines() == ["0.4 0.8 0.4", "True", "1"]


def test_a_gpu_that_cannot_be_read_is_no_number(tmp_path: Path, nvml_library: Path) -> None:
    """A missing GPU, or one without a value, raises; nothing stands for unknown."""
    script = Script(tmp_path / "gpus", gpus=1, util=NA)
    environment = script.environment(nvml_library)
    assert "cannot be read" in run(REFUSED.format(ids="[0]"), environment)
    assert "no GPU 7" in run(REFUSED.format(ids="[7]"), environment)
