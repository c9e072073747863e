"""Whether the system is busy with its own upkeep: updates, rotation of logs, indexes. That is nobody's work.

The amount that such programs move looks like a download, so they are known by name: programs of root, and none that is always
there. They are ignored for an hour at most: what takes longer may be anything.
"""

import os
from collections.abc import Iterable

from costguard.readers.host.processes import Process, Processes
from costguard.readers.host.sense import SensePaths

PROGRAMS = (
    "unattended-upgr", "apt.systemd.dai", "dnf-automatic", "yum-cron", "packagekitd", "logrotate", "savelog", "updatedb",
    "updatedb.plocat", "updatedb.mlocat", "mandb", "fstrim", "e2scrub", "xfs_scrub", "debsums", "aide", "aideinit", "clamscan",
    "freshclam", "rkhunter", "chkrootkit", "lynis", "fwupdmgr",
)  # fmt: skip
"""Names as the kernel cuts them; without those that a person or a script runs to set up a machine: apt-get, dnf, dpkg."""

ROOT = 0
LONGEST = 3600.0


class Upkeep:
    """The programs of upkeep that run. ``more``: names that the owner has added, of any user."""

    def __init__(self, more: Iterable[str], place: SensePaths) -> None:
        self._proc = place.proc
        self._more = tuple(more)
        self._edition: int | None = None  # of no look yet
        self._running: list[Process] = []

    def runs(self, processes: Processes, now: float) -> bool:
        """Whether one runs that began less than an hour ago."""
        if processes.edition != self._edition:
            self._edition = processes.edition
            own = [process for process in processes.named(*PROGRAMS) if process.uid == ROOT]
            self._running = own + processes.named(*self._more)
        return bool(self._running) and any(
            now - process.began < LONGEST and os.access(f"{self._proc}/{process.pid}/stat", os.F_OK)
            for process in self._running
        )
