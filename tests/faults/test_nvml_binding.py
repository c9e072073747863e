"""The reader's own calls, beside those of NVIDIA's binding on the same library: the same answers.

Run as a program it compares them on the machine's own driver.
"""

import os
import subprocess
import sys
from pathlib import Path

from costguard.testing.nvml import Script

BOTH = """\
import json, pynvml as n
from costguard.readers.nvml.library import Nvml
ours = Nvml()
n.nvmlInit()
def theirs(call, *arguments):
    try:
        return 0, call(*arguments)
    except n.NVMLError as error:
        return error.value, None
found = []
for place in range(n.nvmlDeviceGetCount()):
    gpu, (code, mine) = n.nvmlDeviceGetHandleByIndex(place), ours.open_index(place)
    pci = n.nvmlDeviceGetPciInfo(gpu)
    assert code == 0 and ours.same(gpu, mine)
    assert all(ours.same(gpu, one) for code, one in (ours.open_address(pci.busId), ours.open_uuid(n.nvmlDeviceGetUUID(gpu))))
    assert ours.index(mine) == (0, n.nvmlDeviceGetIndex(gpu)) == (0, place)
    assert ours.address(mine) == (0, f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0")
    assert ours.name(mine) == (0, n.nvmlDeviceGetName(gpu))
    assert ours.uuid(mine) == (0, n.nvmlDeviceGetUUID(gpu))
    limits = [theirs(f, gpu) for f in (n.nvmlDeviceGetEnforcedPowerLimit, n.nvmlDeviceGetPowerManagementDefaultLimit)]
    assert ours.power_limits(mine) == [(code, limit or 0) for code, limit in limits]
    code, watts = theirs(n.nvmlDeviceGetPowerUsage, gpu)
    assert ours.power(mine)[0] == code and (code or abs(ours.power(mine)[1] - watts) < 0.2 * watts)
    code, modes = theirs(n.nvmlDeviceGetMigMode, gpu)
    assert ours.mig(mine) == (code, modes[0] if modes else 0)
    most = theirs(n.nvmlDeviceGetMaxMigDeviceCount, gpu)[1] or 0
    parts = [theirs(n.nvmlDeviceGetMigDeviceHandleByIndex, gpu, index)[1] for index in range(most)]
    assert ours.instances(mine)[1] == sorted({n.nvmlDeviceGetGpuInstanceId(part) for part in parts if part is not None})
    code, room = ours.gpm_buffer()
    if code == 0:
        ours.gpm_give_back(room)
    found.append([ours.name(mine)[1], ours.mig(mine), ours.instances(mine), ours.power_limits(mine), code == theirs(n.nvmlGpmSampleAlloc)[0]])
assert ours.open_index(1000) == (theirs(n.nvmlDeviceGetHandleByIndex, 1000)[0], None)
print(json.dumps(found))
"""


def test_they_answer_as_nvidias_own_binding_does(tmp_path: Path, library: Path) -> None:
    """Of a GPU as it is usually, of one that tells little, and of one that is divided."""
    script = Script(tmp_path / "gpus", gpus=3, power=120)
    for call in ("PowerUsage", "EnforcedPowerLimit", "MigMode"):
        script.fail(f"nvmlDeviceGet{call}", 3, gpu=1)
    script.set(2, mig=1, instances={1: {2: 50.0}, 5: {2: 0.0}})
    environment = os.environ | script.environment(library)
    done = subprocess.run([sys.executable, "-c", BOTH], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[0, [1, 5]]" in done.stdout


if __name__ == "__main__":
    exec(BOTH)
