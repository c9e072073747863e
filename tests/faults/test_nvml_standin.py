"""The stand-in library: programs that know nothing of it see the scripted machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from costguard.testing.nvml import CompilerMissingError, Process, Script, build


def run(script: Script, library: Path, code: str) -> str:
    environment = os.environ | script.environment(library)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_nvidias_binding_reads_it(tmp_path: Path, library: Path) -> None:
    """Values, history, processes and errors arrive through nvidia-ml-py."""
    script = Script(tmp_path / "gpus", gpus=2, processes=[Process(42, 100, "compute", 90, 10)])
    script.set(0, util=95, power=600, limit=650)
    script.burst(1, 50, ago=3, seconds=1)
    script.fail("nvmlDeviceGetUtilizationRates", 15, gpu=1)
    code = """
import json, pynvml as n
n.nvmlInit()
a, b = (n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount()))
found = [n.nvmlDeviceGetUtilizationRates(a).gpu, n.nvmlDeviceGetPowerUsage(a), n.nvmlDeviceGetEnforcedPowerLimit(a)]
found += [n.nvmlDeviceGetComputeRunningProcesses(a)[0].pid, n.nvmlDeviceGetProcessUtilization(a, 0)[0].smUtil]
found += [n.nvmlDeviceGetPciInfo(b).busId, max(s.sampleValue.uiVal for s in n.nvmlDeviceGetSamples(b, 1, 0)[1])]
found += [[f.value.uiVal for f in n.nvmlDeviceGetFieldValues(a, [186])]]
try:
    n.nvmlDeviceGetUtilizationRates(b)
except n.NVMLError as error:
    found.append(error.value)
print(json.dumps(found))
"""
    expected = [95, 600_000, 650_000, 42, 90, "00000000:02:00.0", 50, [600_000], 15]
    assert json.loads(run(script, library, code)) == expected


def test_gpustat_and_nvitop_read_it(tmp_path: Path, library: Path) -> None:
    """Monitors that people use run on it."""
    script = Script(tmp_path / "gpus", gpus=2, util=40, memory_used=1000)
    gpustat = "import gpustat; print(*[g.utilization for g in gpustat.GPUStatCollection.new_query()])"
    nvitop = "from nvitop import Device; print(*[d.gpu_utilization() for d in Device.all()])"
    assert run(script, library, gpustat) == "40 40\n"
    assert run(script, library, nvitop) == "40 40\n"


def test_energy_grows_by_the_power_and_for_every_process_alike(tmp_path: Path, library: Path) -> None:
    """The counter is a function of time, not of the process that asks."""
    script = Script(tmp_path / "gpus", energy=1_000_000, power=0)
    code = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetTotalEnergyConsumption(n.nvmlDeviceGetHandleByIndex(0)))"
    assert run(script, library, code) == "1000000\n"
    script.set(power=1000)
    script.set(power=0)
    first, second = run(script, library, code), run(script, library, code)
    assert int(first) >= 1_000_000
    assert first == second


def test_a_forked_child_must_initialise_again(tmp_path: Path, library: Path) -> None:
    """As with the real library: the child of a fork is told that it is uninitialised."""
    code = """
import os, pynvml as n
n.nvmlInit()
if os.fork() == 0:
    try:
        n.nvmlDeviceGetCount()
    except n.NVMLError as error:
        os._exit(error.value)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert run(Script(tmp_path / "gpus"), library, code) == "1\n"


def test_no_compiler_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a C compiler the error names what to install."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerMissingError, match="apt install gcc"):
        build(tmp_path)


def test_time_passes_as_the_script_says(tmp_path: Path, library: Path) -> None:
    """Where its clock stands, energy and samples are those of that moment, whatever the machine's clock says."""
    script = Script(tmp_path / "gpus", energy=0, power=100)
    script.stand(5000.0)
    script.set(util=40, energy=0)
    script.stand(5010.0)
    code = """
import json, pynvml as n
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(0)
stamp, value = [(s.timeStamp, s.sampleValue.uiVal) for s in n.nvmlDeviceGetSamples(gpu, 1, 0)[1]][-1]
print(json.dumps([n.nvmlDeviceGetTotalEnergyConsumption(gpu), stamp, value]))
"""
    assert json.loads(run(script, library, code)) == [1_000_000, 5_010_000_000, 40]
