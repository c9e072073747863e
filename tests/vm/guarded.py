"""A machine with two stand-in GPUs, guarded by the service."""

from pathlib import Path

from costguard.testing.nvml import Script
from tests.vm.image import Image
from tests.vm.machine import Machine

ADDRESSES = ("0000:01:00.0", "0000:02:00.0")
GPUS = "/run/standin-gpus"
DROP_IN = f"""\
[Service]
Environment=LD_LIBRARY_PATH=/opt/standin COSTGUARD_STANDIN_NVML={GPUS}
"""
SYSFS = f"""
from costguard.testing.nvml import write_sysfs
write_sysfs("/opt/standin/sys", {list(ADDRESSES)!r})
"""
CONFIGURATION = """\
mode = "dry-run"
kill_action = "shutdown"
interval = "2s"
arm_duration = "6s"
kill_duration = "1m"
boot_grace = "10s"

[notify]
local_only = true

[host]
sysfs = "/opt/standin/sys"

# The tests ask all the time, and emulation is slow: programs that are loaded again and again look like work.
[senses.traffic]
enabled = false

[senses.cpu]
enabled = false
"""


class Guarded(Machine):
    """Two GPUs that a script moves, and a configuration that a test may replace."""

    def __init__(self, image: Image, folder: Path) -> None:
        super().__init__(image, folder)
        self._uptime = 0.0
        self.before: set[str] = set()
        self.gpus = Script(folder / "gpus", gpus=2, machine=lambda: self._uptime, name="NVIDIA H200")
        for index, address in enumerate(ADDRESSES):
            self.gpus.set(index, pci=address)

    def set_up(self, configuration: str = CONFIGURATION) -> None:
        """Install the service, and wait until it has seen the GPUs."""
        self.run("/opt/costguard/bin/python", "-c", SYSFS)
        self.run("ln", "-s", "/sys/class", "/opt/standin/sys/class")
        self.move(util=0)
        self.before = self.files()
        self.put("/etc/systemd/system/costguard.service.d/standin.conf", DROP_IN)
        self.put("/etc/costguard/config.toml", configuration)
        self.run("costguard", "install")
        self.until(self.sees_gpus)

    def files(self) -> set[str]:
        """Every path of the disk with mode, owner, target and size; not what each system writes while it runs."""
        left_out = "-path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/log -o -path /var/tmp -o -name __pycache__"
        listed = self.shell(f"find / -xdev \\( {left_out} \\) -prune -o -printf '%p %M %u:%g %l %y\\n'")
        return set(listed.splitlines())

    def configure(self, configuration: str) -> None:
        """Another configuration, from its next start on."""
        self.put("/etc/costguard/config.toml", configuration)
        self.run("systemctl", "restart", "costguard")
        self.until(self.sees_gpus)

    def move(self, **values: object) -> None:
        """Let all GPUs do something else from now on."""
        self._uptime = float(self.shell("cat /proc/uptime").split()[0])
        self.gpus.set(**values)  # type: ignore[arg-type]  # as they are, for its own check
        self.put(GPUS, self.gpus.text())

    def sees_gpus(self) -> bool:
        """Whether the agent answers, and has read them."""
        gpus = self.status().get("gpus") or []
        return len(gpus) == len(ADDRESSES)

    def journal(self) -> str:
        """What the service has said in this boot."""
        return self.shell("journalctl -b -u costguard -o cat --no-pager")
