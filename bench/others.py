"""What other ways of looking at the same GPUs cost."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.measure import children_cpu_ms
from bench.world import World


class Cost(NamedTuple):
    """Milliseconds of CPU per poll, MiB of PSS while it runs."""

    cpu: float
    pss: float


_POLLER = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return 1;
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*count)(unsigned *) = (int (*)(unsigned *))dlsym(library, "nvmlDeviceGetCount_v2");
    int (*open)(unsigned, void **) = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    int (*rates)(void *, unsigned *) = (int (*)(void *, unsigned *))dlsym(library, "nvmlDeviceGetUtilizationRates");
    unsigned n = 0, value[2];
    void *gpu;
    if (init() || count(&n)) return 1;
    for (unsigned i = 0; i < n; i++) if (open(i, &gpu) || rates(gpu, value) || printf("%u\n", value[0]) < 0) return 1;
    return 0;
}
"""

_PYNVML = (
    "import pynvml as n; n.nvmlInit();"
    "print([n.nvmlDeviceGetUtilizationRates(n.nvmlDeviceGetHandleByIndex(i)).gpu for i in range(n.nvmlDeviceGetCount())])"
)

_NVITOP = """
from nvitop import Device
gpus = Device.all()
def poll():
    for gpu in gpus:
        gpu.gpu_utilization(), gpu.memory_used(), gpu.power_usage(), gpu.processes()
"""

NVITOP, BARE = (
    _NVITOP,
    """
import os
files = [os.open(f"/proc/{name}", os.O_RDONLY) for name in ("loadavg", "net/dev", "vmstat")]
def poll():
    for file in files:
        os.pread(file, 8192, 0)
""",
)
"""What `resident` runs: nvitop, and a Python that does no more than read what the host reader reads in each look."""

_PATIENT = """
import sys, time
{}
for _ in range(3):
    poll()
print("ready", flush=True)
every, due = float(sys.argv[1]), time.monotonic()
while True:
    due += every
    time.sleep(max(0.0, due - time.monotonic()))
    poll()
"""

_GPUSTAT = """
import gpustat
def poll():
    gpustat.GPUStatCollection.new_query()
"""

_FRAME = """
import json, sys, time
{}
for _ in range(3):
    poll()
before = time.process_time()
for _ in range(int(sys.argv[1])):
    poll()
used = (time.process_time() - before) * 1000 / int(sys.argv[1])
pss = next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:"))
print(json.dumps([used, pss / 1024]))
"""


def process_per_poll(world: World, polls: int) -> dict[str, float]:
    """Milliseconds of CPU per poll when every poll is a process of its own."""
    binary = _compile(world.folder)
    environment = {**os.environ, **world.environment()}

    def cost(command: list[str], times: int) -> float:
        def polling() -> None:
            for _ in range(times):
                subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

        return children_cpu_ms(polling) / times

    return {
        "a C program per poll": cost([str(binary)], polls * 5),
        "a Python with pynvml per poll": cost([sys.executable, "-c", _PYNVML], polls),
    }


def libraries(world: World, polls: int) -> dict[str, Cost]:
    """Nvitop and gpustat, each resident in a process of its own."""
    found = {}
    for name, code in (("nvitop in one process", _NVITOP), ("gpustat in one process", _GPUSTAT)):
        done = subprocess.run(
            [sys.executable, "-c", _FRAME.format(code), str(polls)],
            env={**os.environ, **world.environment()},
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = Cost(*json.loads(done.stdout.splitlines()[-1]))
    return found


@contextmanager
def resident(code: str, world: World, interval: float) -> Iterator[int]:
    """`NVITOP` or `BARE` in a process of its own, whose id this gives, polling every so many seconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PATIENT.format(code), str(interval)],
        env={**os.environ, **world.environment()},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _compile(folder: Path) -> Path:
    source, binary = folder / "poller.c", folder / "poller"
    source.write_text(_POLLER)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", str(binary), str(source), "-ldl"], check=True)
    return binary
