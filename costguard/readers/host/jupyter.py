"""The sense `jupyter`: kernels of notebooks that are busy, also for hours without a word; an open tab is no work.

Each server with a kernel is asked for its list of kernels. Kernels that no server lists (an editor's, papermill's), and
those of a server that cannot be asked, are judged by the CPU that they use.
Source: jupyter_server, ``/api/kernels`` (``execution_state``).
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from costguard.readers.host.errand import all_left, collect
from costguard.readers.host.kernels import Kernel, Kernels, shown
from costguard.readers.host.page import RESTS_SECONDS
from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import NEVER, NOT_YET, Activity, Moment, SensePaths, Sight, all_unknown
from costguard.readers.host.text import PAGE_BYTES, duration, read
from costguard.readers.host.users import Users

if TYPE_CHECKING:
    from costguard.readers.host.kernel_server import KernelServer

SERVERS, SERVERS_OF_A_USER = 32, 8
"""Servers asked at most, in all and of one user."""

FOUND_AT_ONCE = 4
"""Servers for which a process is started in one look; the others wait for the next."""

ACTIVE = 64
"""Activities told apart at most."""

CPU_SHARE = 0.05
"""Share of a core above which a kernel works; an idle one uses a tenth of that."""

NO_KERNEL = Sight(seen="no kernel runs")
"""What most machines show at every look."""


class Jupyter:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._place = place
        self._quiet_for = float(settings["quiet_for"])
        self._users = Users(place)
        self._kernels = Kernels(place.proc)
        self._servers: dict[tuple[str, int, int], KernelServer] = {}
        self._used: dict[tuple[int, int], tuple[float, float]] = {}  # CPU seconds of kernels, and when
        self._active: dict[str, Activity] = {}
        self._ticks = os.sysconf("SC_CLK_TCK")
        self.rests_until = 0.0

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        collect(now.boot)
        kernels = self._kernels.look(processes)
        if not (kernels or self._servers or self._active or processes.unknown):
            self.rests_until = NEVER if self._kernels.settled and all_left() else 0.0
            return NO_KERNEL
        self.rests_until = 0.0
        by_server: dict[tuple[str, int, int], list[Kernel]] = {}
        for kernel in kernels:
            parent = kernel.above[0] if kernel.above else kernel.process
            by_server.setdefault((kernel.folder, parent.pid, parent.start), []).append(kernel)
        troubles = {processes.unknown} if processes.unknown else set()
        self._keep(now.boot, by_server, troubles)
        used: dict[tuple[int, int], tuple[float, float]] = {}
        started = 0
        for key, server in self._servers.items():
            started += server.look(now.boot, ask=True, find=started < FOUND_AT_ONCE)
            owner = self._owner(by_server[key][0])
            listed = server.listed
            if listed:
                for name in listed.busy:
                    who = f"kernel {name} of {owner}'s Jupyter"
                    self._note(who, "was busy", "without a busy cell", listed.asked, owner)
            if server.trouble:
                troubles.add(server.trouble)
            elif not server.looked:
                troubles.add(NOT_YET)
            if listed or server.looked:
                others = [kernel for kernel in by_server[key] if not listed or kernel.id not in listed.ids]
                self._judge_by_cpu(now.boot, others, owner, used)
        self._used = used
        self._active = {who: one for who, one in self._active.items() if self._lasts(one, now.boot)}
        seen = "" if self._active else "no kernel is busy" if kernels else NO_KERNEL.seen
        return Sight(tuple(self._active.values()), all_unknown(troubles), seen)

    def filenos(self) -> list[int]:
        """Descriptors that become readable when `go_on` has something to do."""
        return [fd for server in self._servers.values() for fd in server.filenos()]

    def go_on(self, now: Moment) -> None:
        """Go on with what is under way, between two looks."""
        for server in self._servers.values():
            server.look(now.boot, ask=False)

    def _keep(self, now: float, by_server: dict[tuple[str, int, int], list[Kernel]], troubles: set[str]) -> None:
        """Keep one entry for each server that has a kernel."""
        for key in self._servers.keys() - by_server.keys():
            self._servers.pop(key).close(now)
        of_user: dict[int, int] = {}
        for key in self._servers:
            uid = by_server[key][0].process.uid
            of_user[uid] = of_user.get(uid, 0) + 1
        for key in by_server.keys() - self._servers.keys():
            kernel = by_server[key][0]
            uid, owner = kernel.process.uid, self._owner(kernel)
            if len(self._servers) >= SERVERS or of_user.get(uid, 0) >= SERVERS_OF_A_USER:
                troubles.add(f"{owner} has more Jupyter servers than costguard asks")
                continue
            of_user[uid] = of_user.get(uid, 0) + 1
            from costguard.readers.host.kernel_server import KernelServer  # here: most machines have no kernel

            rests = RESTS_SECONDS if self._quiet_for >= 2 * RESTS_SECONDS else 0.0
            self._servers[key] = KernelServer(self._place.proc, kernel, f"{owner}'s Jupyter", rests)

    def _owner(self, kernel: Kernel) -> str:
        return self._users.name(kernel.process.uid)

    def _judge_by_cpu(
        self, now: float, kernels: list[Kernel], owner: str, used: dict[tuple[int, int], tuple[float, float]]
    ) -> None:
        """Note the kernels that have used the CPU since the last look."""
        for kernel in kernels:
            key = kernel.process.pid, kernel.process.start
            seconds = self._cpu_seconds(kernel.process.pid)
            before, at = self._used.get(key, (seconds, now))
            used[key] = seconds, now
            if now > at and seconds - before >= CPU_SHARE * (now - at):
                who = f"kernel {shown(kernel.process.name)} of {owner}"
                self._note(who, "used the CPU", f"below {CPU_SHARE:.0%} of a core", now, owner)

    def _cpu_seconds(self, pid: int) -> float:
        """CPU seconds of a process and of the children that it has waited for. Source: proc_pid_stat(5), fields 14 to 17."""
        try:
            fields = read(f"{self._place.proc}/{pid}/stat", PAGE_BYTES).rpartition(b")")[2].split()
            return sum(map(int, fields[11:15])) / self._ticks
        except (OSError, ValueError):
            return 0.0

    def _note(self, who: str, what: str, without: str, at: float, user: str) -> None:
        if who not in self._active and len(self._active) >= ACTIVE:  # a server may change its names with every list
            who, what = f"other kernels of {user}", "were busy"
        before = self._active.get(who)
        since, last = (before.since, max(before.last, at)) if before else (at, at)
        lets_go = f"{duration(self._quiet_for) if self._quiet_for else 'a look'} {without}"
        self._active[who] = Activity(who, what, since, last, lets_go, user)

    def _lasts(self, one: Activity, now: float) -> bool:
        """Whether it still counts: for a while after its last sign, and at least until the next list."""
        asked = [server.listed.asked for server in self._servers.values() if server.listed and server.listed.busy]
        return now - one.last <= self._quiet_for or one.last in asked
