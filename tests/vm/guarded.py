"""A machine with two stand-in GPUs, guarded by the service."""

from collections.abc import Sequence
from pathlib import Path

from costguard.testing.nvml import NA, Script
from tests.vm.image import ADDRESSES, Image
from tests.vm.machine import Machine

GPUS = "/run/standin-gpus"
DROP_IN = f"""\
[Service]
StandardOutput=journal+console
StandardError=journal+console
Environment=LD_LIBRARY_PATH=/opt/standin COSTGUARD_STANDIN_NVML={GPUS}
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

    def __init__(self, image: Image, folder: Path, options: Sequence[str] = ()) -> None:
        super().__init__(image, folder, options)
        self._uptime = 0.0
        self.before: set[str] = set()  # the files of the disk, before anything was installed as a service
        self.gpus = Script(folder / "gpus", gpus=2, machine=lambda: self._uptime, name="NVIDIA H200")
        for index, address in enumerate(ADDRESSES):
            # no counter of energy: in emulation its reading may be late by as much as would look like work
            self.gpus.set(index, pci=address, energy=NA)

    def set_up(self, configuration: str = CONFIGURATION, drop_in: str = DROP_IN) -> None:
        """Install the service, and wait until it has seen the GPUs."""
        self.move(util=0)
        self.put("/etc/systemd/system/costguard.service.d/standin.conf", drop_in)
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
        return len(gpus) == len(ADDRESSES) and all(gpu["known"] for gpu in gpus)

    def sits(self) -> None:
        """Alice logs in at the second serial line; after each boot."""
        self.shell(
            "chown alice:tty /dev/ttyS1; chmod 620 /dev/ttyS1; setsid --ctty runuser -u alice -- sleep 100000 </dev/ttyS1 >/dev/ttyS1 2>&1 &"
        )

    def told(self, words: str) -> bool:
        """Whether alice has read that in this boot, however her terminal broke the lines."""
        return words in " ".join(self.terminal.split())

    def journal(self) -> str:
        """What the service has said in this boot."""
        return self.shell("journalctl -b -u costguard -o cat --no-pager")
