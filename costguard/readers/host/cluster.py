"""The sense `cluster`: this machine is one of several that work together, so its idle GPUs say nothing alone.

A scheduler's daemon runs; a process that holds a GPU, or a launcher of jobs, is connected to other hosts; or InfiniBand moves
data. A rank that waits for the others moves no byte and uses no processor: its open connections are all that shows it.
"""

import os
import time
from collections.abc import Mapping
from typing import Any

from costguard.cloud.schedulers import DAEMONS
from costguard.readers.host import peers
from costguard.readers.host.arguments import PYTHONS
from costguard.readers.host.fabric import Fabric
from costguard.readers.host.gpus import GpuHolders
from costguard.readers.host.opened import SECONDS, sockets_of
from costguard.readers.host.processes import NAME_LENGTH, Process, Processes
from costguard.readers.host.rates import Level
from costguard.readers.host.round_robin import round_robin
from costguard.readers.host.sense import NOT_YET, Activity, Moment, SensePaths, Sight
from costguard.readers.host.text import duration, printable
from costguard.readers.host.users import Users

LAUNCHERS = frozenset((
    "torchrun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prte", "prted", "hydra_pmi_proxy",
    "hydra_bstrap_pr", "horovodrun", "deepspeed", "accelerate", "slurmstepd", "raylet",
))  # fmt: skip
"""Programs that start the ranks of a job on several hosts; of a longer name the kernel keeps 15 characters."""

MODULES = (
    b"torch.distributed.run",
    b"torch.distributed.launch",
    b"accelerate.commands.launch",
    b"deepspeed.launcher.launch",
)
"""The same, as Python runs them with ``-m``."""

STORES = range(29000, 30000)
"""Ports on which a job's first rank waits for the others, unless somebody chose another one."""

FIRST_SECONDS, LAST_SECONDS = 10.0, 600.0
"""Between two looks at connections: doubled each time, as the kernel walks through its whole table for one."""

AGAIN_SECONDS = 60.0
"""Between two looks while a job has lost its connections: it may open new ones."""

FABRIC_SECONDS, FABRIC_ABOVE = 30.0, 20_000.0
ARGUMENTS = 4
"""Arguments of a Python process that are searched for a launcher's name; none is kept."""

ALONE = Sight(seen="no scheduler's node, and no job of several hosts")
"""What most machines show at every look."""


class _Rank:
    """A process that may belong to a job, and its connections to other hosts: the inode of each, by its descriptor."""

    __slots__ = ("before", "hidden", "launches", "links", "process", "round")

    def __init__(self, process: Process, *, launches: bool = False) -> None:
        self.process = process
        self.launches = launches
        self.links: dict[str, int] = {}
        self.before = False  # whether it was connected at the look before
        self.hidden = False  # whether they are not for this user to see
        self.round = 0  # in which they were looked at, 0 for not yet


class Cluster:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._proc, self._users = place.proc, Users(place)
        self._quiet_for = float(settings["quiet_for"])
        self._standalone = bool(settings["standalone"])
        self._ignore = frozenset(name[:NAME_LENGTH] for name in settings["ignore"])
        self._gpus, self._fabric = GpuHolders(place), Fabric(place, FABRIC_ABOVE)
        self._moves, self._fabric_at = Level(FABRIC_ABOVE, self._quiet_for), float("-inf")
        self._edition: int | None = None  # of no look yet
        self._daemons: list[tuple[Process, str]] = []
        self._launchers: dict[int, Process] = {}
        self._ranks: dict[int, _Rank] = {}
        self._wait, self._check_at = FIRST_SECONDS, float("-inf")
        self._round, self._behind = 1, False  # the round of looking at connections, and whether it goes on
        self._active: dict[str, Activity] = {}
        self.rests_until = 0.0

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        if processes.edition != self._edition:
            self._sort(processes)
            self._edition = processes.edition
        wanted = {process.pid: _Rank(process, launches=True) for process in self._launchers.values()}
        for one in self._gpus.look(processes, now.boot):
            if not one.watches and one.process.name not in self._ignore:
                wanted.setdefault(one.process.pid, _Rank(one.process))
        self._follow(now.boot, wanted)
        active = (
            [] if self._standalone else [self._daemon(process, engine, now.boot) for process, engine in self._daemons]
        )
        self._active = {who: one for who, one in self._active.items() if now.boot - one.last <= self._quiet_for}
        active += self._active.values()
        if self._fabric_moves(now.boot):
            lets_go = f"{duration(self._quiet_for)} without data"
            active.append(Activity("InfiniBand", "moved data", self._moves.since, self._moves.last, lets_go))
        unknown = self._unknown(processes)
        rests = not (active or unknown or self._ranks)
        fabric_at = max(self._fabric_at + FABRIC_SECONDS, self._fabric.due_at)
        self.rests_until = min(self._gpus.due_at, fabric_at) if rests else 0.0
        return Sight(tuple(active), unknown, ALONE.seen) if active or unknown else ALONE

    def _unknown(self, processes: Processes) -> str:
        if processes.unknown:
            return processes.unknown
        if self._gpus.hidden or any(rank.hidden for rank in self._ranks.values()):
            return "only root can see which hosts other users' processes talk to"
        return "" if self._gpus.complete and not self._behind else NOT_YET

    def _sort(self, processes: Processes) -> None:
        """Find daemons and launchers among the new processes."""
        for process in processes.changed(self._edition):
            if process.name in DAEMONS:
                self._judge(process)
            if process.name in LAUNCHERS or (process.name.startswith(PYTHONS) and self._launches(process, processes)):
                self._launchers[process.pid] = process
        self._daemons = [one for one in self._daemons if processes.get(one[0].pid) is one[0]]
        self._launchers = {pid: one for pid, one in self._launchers.items() if processes.get(pid) is one}

    def _judge(self, process: Process) -> None:
        from costguard.cloud.managed import node_of  # here: most machines have no such daemon

        node = node_of(self._proc, str(process.pid))
        if node is not None and node.counts:
            self._daemons.append((process, node.engine))

    def _launches(self, process: Process, processes: Processes) -> bool:
        """Whether a Python runs a launcher."""
        try:
            words = processes.arguments(process).split(b"\0")[:ARGUMENTS]
        except OSError:
            return False
        names = {word.rpartition(b"/")[2].decode(errors="replace") for word in words}
        return bool(names & LAUNCHERS) or any(word in MODULES for word in words)

    def _daemon(self, process: Process, engine: str, now: float) -> Activity:
        user = self._users.name(process.uid)
        began = min(process.began, now)
        lets_go = "its end, or senses.cluster.standalone = true"
        return Activity(f"{printable(process.name)} of {engine}", "runs: this is a node", began, now, lets_go, user)

    def _follow(self, now: float, wanted: dict[int, _Rank]) -> None:
        """Look at the connections of the processes that may belong to a job."""
        kept = {pid: rank for pid, rank in self._ranks.items() if pid in wanted and wanted[pid].process is rank.process}
        new = wanted.keys() - kept.keys()
        self._ranks = {pid: kept.get(pid, rank) for pid, rank in wanted.items()}
        lost = [rank for rank in self._ranks.values() if rank.links and not self._holds(rank)]
        if new or lost:
            self._wait, self._check_at = FIRST_SECONDS, now
        if self._ranks and (self._behind or now >= self._check_at):
            self._behind = not self._check()
            self._check_at = now + self._wait
            waits = self._active and not any(rank.links for rank in self._ranks.values())
            self._wait = min(AGAIN_SECONDS if waits else LAST_SECONDS, self._wait * 2.0)
        for rank in self._ranks.values():
            if rank.links and rank.before:
                self._note(rank.process, now)
            rank.before = bool(rank.links)

    def _holds(self, rank: _Rank) -> bool:
        """Whether one of its connections is still open."""
        for name, inode in rank.links.items():
            try:
                if os.readlink(f"{self._proc}/{rank.process.pid}/fd/{name}") == f"socket:[{inode}]":
                    return True
            except OSError:
                continue
        return False

    def _check(self) -> bool:
        """Read the connections of the processes not yet read in this round; false if time ran out, as some have very many files open."""
        networks: dict[str, dict[int, int]] = {}
        end = time.thread_time() + SECONDS
        waiting = [rank for rank in self._ranks.values() if rank.round != self._round]
        for rank in round_robin(waiting, lambda one: one.process.uid):
            if time.thread_time() > end:
                return False
            rank.round = self._round
            self._connect(rank, networks)
        self._round += 1
        return True

    def _connect(self, rank: _Rank, networks: dict[str, dict[int, int]]) -> None:
        """Note the connections of one process to other hosts."""
        pid = rank.process.pid
        rank.links, rank.hidden = {}, False
        try:
            network = self._network(pid)
            open_now = sockets_of(self._proc, pid)
            if open_now and network not in networks:
                networks[network] = peers.to_other_hosts(self._proc, pid)
        except (PermissionError, ValueError, OverflowError):  # or the table is malformed
            rank.hidden = True
        except OSError:  # it has ended
            return
        else:
            far = {one: port for one, port in networks.get(network, {}).items() if one in open_now}
            rank.links = {open_now[one]: one for one in far if rank.launches or _of_job(far)}

    def _network(self, pid: int) -> str:
        try:
            return os.readlink(f"{self._proc}/{pid}/ns/net")
        except FileNotFoundError:
            return ""

    def _note(self, process: Process, now: float) -> None:
        user = self._users.name(process.uid)
        who = f"{printable(process.name)} of {user}"
        before = self._active.get(who)
        since = before.since if before else max(min(process.began, now), now - FIRST_SECONDS)
        lets_go = f"{duration(self._quiet_for)} without such a connection"
        self._active[who] = Activity(who, "was connected to other hosts of a job", since, now, lets_go, user)

    def _fabric_moves(self, now: float) -> bool:
        if now - self._fabric_at >= FABRIC_SECONDS:
            before, self._fabric_at = self._fabric_at, now
            rate, least = self._fabric.look(now)
            self._moves.take(rate, now, max(before, now - 2 * FABRIC_SECONDS), least=least)
        return self._moves.goes_on(now)


def _of_job(far: Mapping[int, int]) -> bool:
    """Whether connections to other hosts are a job's: a server or a monitor has only connections that others opened."""
    return any(port == 0 or port in STORES for port in far.values())
