"""The sense `serving`: inference servers that have requests, by their page for Prometheus.

Found by the names of their programs, or by a usual port and a GPU that the process holds. No other program's port is asked: an
unknown protocol, such as a training job's rendezvous, may be harmed by a request. The owner may name further pages.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from costguard.readers.host.arguments import PYTHONS, Recognised
from costguard.readers.host.inference import NIM_PATH, PATHS, Family, family_of, ports_of
from costguard.readers.host.listening import Listener, listeners, network
from costguard.readers.host.opened import SECONDS, opened, sockets_of
from costguard.readers.host.page import RESTS_SECONDS, is_loopback
from costguard.readers.host.processes import Process, Processes
from costguard.readers.host.sense import NOT_YET, Activity, Moment, SensePaths, Sight, all_unknown
from costguard.readers.host.text import duration
from costguard.readers.host.users import Users

if TYPE_CHECKING:
    from costguard.readers.host.metrics_page import MetricsPage

PROGRAMS = (
    *PYTHONS, "vllm", "tritonserver", "text-generation", "text-embeddings", "sglang", "trtllm-serve", "lmdeploy", "llama-server",
)  # fmt: skip
"""How the names of processes begin whose arguments are read."""

USUAL_PORTS = (8000, 8002, 30000)
"""Ports on which any process that holds a GPU is asked, whatever its name."""

PORTS = 4
"""Ports asked at most of a known program that listens elsewhere."""

SERVERS, SERVERS_OF_A_USER = 32, 8
"""Servers asked at most, in all and of one user."""

LIST_SECONDS, LIST_RARELY_SECONDS = 20.0, 60.0
"""Between two looks at who listens where: while a known program has no page yet, and otherwise."""

NO_SERVER = Sight(seen="no inference server runs")
"""What most machines show at every look."""

AGAIN_SECONDS = 60.0
"""Between two looks at whether a process that listens on a usual port holds a GPU."""


class _PageAddress(NamedTuple):
    """Where a page may be, and whose: ``beside`` is the process in whose network it is, 0 for this process's own.

    ``server``: the process that was recognised, 0 where none was; one of its ports has the page.
    """

    address: str
    port: int
    beside: int
    uid: int
    kind: Family | None = None
    server: int = 0


class Serving:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        self._place = place
        self._quiet_for = float(settings["quiet_for"])
        self.usual_ports: tuple[int, ...] = USUAL_PORTS
        self._users = Users(place)
        self._recognised = Recognised(_may_be_server, _server, PROGRAMS)
        self._holders = _Holders(place)
        self._servers: list[Process] = []  # the recognised ones
        self._list_at = 0.0
        self._spots: list[_PageAddress] = []
        self._blind = ""  # why listening ports cannot be seen
        self._crowds: list[int] = []  # users whose servers take too long to go through
        self._hidden: list[int] = []  # usual ports of which nobody but root sees the process
        self._pages: dict[_PageAddress, MetricsPage] = {}
        self._named: dict[str, MetricsPage] = {}  # pages that the owner has named
        self._wrong = ""
        for url in settings["urls"]:
            self._name(url)
        self._active: dict[str, Activity] = {}
        self.rests_until = 0.0

    def _name(self, url: str) -> None:
        try:
            address, port, path = parts(url)
        except ValueError:
            self._wrong = "a page in senses.serving.urls is not an http address of this machine"
        else:
            self._named[url] = self._page(address, port, (path,), expected=False)

    def _page(
        self, address: str, port: int, paths: tuple[str, ...], *, beside: int = 0, expected: bool = True,
        kind: Family | None = None,
    ) -> "MetricsPage":  # fmt: skip
        from costguard.readers.host.metrics_page import MetricsPage  # here: most machines have no server

        rests = RESTS_SECONDS if self._quiet_for >= 2 * RESTS_SECONDS else 0.0
        return MetricsPage(
            address, port, paths, rests, proc=self._place.proc, beside=beside, expected=expected, kind=kind
        )

    def look(self, now: Moment, processes: Processes) -> Sight:
        """See `costguard.readers.host.sense.Sense`."""
        recognised = self._recognised.look(processes)
        servers = [process for process, _ in recognised]
        ended = any(page.ended for page in self._pages.values())
        if now.boot >= self._list_at or servers != self._servers or ended:
            self._servers = servers
            self._list(now.boot, recognised, processes)
        troubles = {words for words in (processes.unknown, self._wrong, self._blind) if words}
        troubles.update(self._more_of(uid) for uid in self._crowds)
        troubles.update(f"only root can see what listens on port {port}" for port in self._hidden)
        if not (troubles or self._spots or self._pages or self._named or self._active):
            self.rests_until = self._list_at if self._recognised.settled else 0.0
            return NO_SERVER
        self.rests_until = 0.0
        self._keep(troubles)
        self._ask(now.boot, troubles)
        self._lapse(now.boot)
        unknown = all_unknown(troubles)
        quiet = "no inference server has requests" if self._pages or self._named else NO_SERVER.seen
        return Sight(tuple(self._active.values()), unknown, "" if self._active else quiet)

    def _ask(self, now: float, troubles: set[str]) -> None:
        """Look at every page. What fails at one port of a server does not count once another has its page."""
        for page in self._all_pages():
            page.look(now, ask=True)
        answered = {spot.server for spot, page in self._pages.items() if spot.server and page.family}
        for spot, page in self._pages.items():
            others = set() if spot.server in answered and not page.family else troubles
            self._take(page, spot.kind.name if spot.kind else "", self._users.name(spot.uid), others)
        for page in self._named.values():
            self._take(page, "", "", troubles)

    def _lapse(self, now: float) -> None:
        """Forget servers that have had no requests for long enough."""
        in_use = {page.used for page in self._all_pages() if page.in_use}
        self._active = {
            who: one for who, one in self._active.items() if now - one.last <= self._quiet_for or one.last in in_use
        }

    def _all_pages(self) -> "list[MetricsPage]":
        return [*self._pages.values(), *self._named.values()]

    def filenos(self) -> list[int]:
        """Descriptors that become readable when `go_on` has something to do."""
        return [fd for page in self._all_pages() if (fd := page.fileno()) >= 0]

    def go_on(self, now: Moment) -> None:
        """Go on with what is under way, between two looks."""
        for page in self._all_pages():
            page.look(now.boot, ask=False)

    def _take(self, page: "MetricsPage", family: str, user: str, troubles: set[str]) -> None:
        """Take what a page has shown."""
        who = f"{page.family or family or 'server'}{' of ' if user else ''}{user} on port {page.port}"
        if page.trouble:
            troubles.add(f"{who} {page.trouble}")
        elif not page.looked:
            troubles.add(NOT_YET)
        if page.used is not None:  # what has lapsed is left out again below
            before = self._active.get(who)
            since = before.since if before else page.used
            lets_go = f"{duration(self._quiet_for) if self._quiet_for else 'a look'} without requests"
            last = max(before.last, page.used) if before else page.used
            self._active[who] = Activity(who, "had requests", since, last, lets_go, user)

    def _keep(self, troubles: set[str]) -> None:
        """Keep one page for each place, not too many of one user."""
        for gone in self._pages.keys() - set(self._spots):
            self._pages.pop(gone).close()
        of_user: dict[int, int] = {}
        for spot in self._spots:
            of_user[spot.uid] = of_user.get(spot.uid, 0) + 1
            if spot in self._pages:
                continue
            if len(self._pages) >= SERVERS or of_user[spot.uid] > SERVERS_OF_A_USER:
                troubles.add(self._more_of(spot.uid))
                continue
            paths = spot.kind.paths if spot.kind else (*PATHS, NIM_PATH)
            self._pages[spot] = self._page(spot.address, spot.port, paths, beside=spot.beside, kind=spot.kind)

    def _more_of(self, uid: int) -> str:
        return f"{self._users.name(uid)} has more inference servers than costguard asks"

    def _list(self, now: float, recognised: list[tuple[Process, Any]], processes: Processes) -> None:
        """Find where pages may be."""
        self._spots, self._blind, self._hidden = [], "", []
        try:
            own = listeners(self._place.proc)
        except OSError as error:
            self._list_at = now + LIST_SECONDS
            self._blind = f"listening ports cannot be seen ({error.strerror})"
            return
        taken = {("", page.port) for page in self._named.values()}
        spent: dict[int, float] = {}
        for process, (family, ports) in sorted(recognised, key=lambda found: found[0].pid):
            began = time.thread_time()
            if spent.setdefault(process.uid, 0.0) > SECONDS:
                continue
            net, rows = self._network_of(process, own)
            for row in _candidates(process, ports, rows, self._place.proc):
                if (net, row.port) not in taken:
                    taken.add((net, row.port))
                    beside = process.pid if net else 0
                    self._spots.append(_PageAddress(row.address, row.port, beside, row.uid, family, process.pid))
            spent[process.uid] += time.thread_time() - began
        self._crowds = [uid for uid, seconds in spent.items() if seconds > SECONDS]
        self._list_at = now + (LIST_SECONDS if len(self._spots) < len(recognised) else LIST_RARELY_SECONDS)
        self._holders.forget(own)
        for row in own:
            if row.port in self.usual_ports and row.address and ("", row.port) not in taken:
                taken.add(("", row.port))
                match self._holders.listens(now, row, processes):
                    case "too much to tell":
                        self._crowds.append(row.uid)
                    case "hidden":
                        self._hidden.append(row.port)
                    case "a GPU":
                        self._spots.append(_PageAddress(row.address, row.port, 0, row.uid))

    def _network_of(self, process: Process, own: list[Listener]) -> tuple[str, list[Listener]]:
        """The name of the network of a process, empty for this process's own, and the listening sockets there."""
        net = network(self._place.proc, process.pid)
        try:
            return net, (listeners(self._place.proc, process.pid) if net else own)
        except OSError:  # it has ended
            return net, []


Holding = Literal["a GPU", "no GPU", "too much to tell", "hidden"]
"""What the process that listens holds, or one below it: nobody can tell where its user has too many files open, or where only root may look."""


class _Owner(NamedTuple):
    """The first process that has a listening socket, 0 for none that can be seen; whether it, or one below it, holds a GPU."""

    pid: int
    held: bool
    again: float  # when it is looked at again


class _Holders:
    """Who listens and holds a GPU. Finding the owner of a socket takes milliseconds, so it is done once."""

    def __init__(self, place: SensePaths) -> None:
        self._proc = place.proc
        self._device = f"{place.dev}/nvidia"
        self._owners: dict[int, _Owner] = {}  # by socket

    def forget(self, rows: list[Listener]) -> None:
        """Forget all sockets but these."""
        inodes = {row.inode for row in rows}
        self._owners = {inode: owner for inode, owner in self._owners.items() if inode in inodes}

    def listens(self, now: float, row: Listener, processes: Processes) -> Holding:
        """What the process that listens there, or one below it, holds."""
        owner = self._owners.get(row.inode)
        if owner is None:
            pid = self._owner_of(row, processes)
            if not isinstance(pid, int):
                return pid
            owner = self._owners[row.inode] = _Owner(pid, False, now)
        process = processes.get(owner.pid)
        if process is not None and not owner.held and now >= owner.again:
            held = any(self._holds(one.pid) for one in processes.below([process]))
            owner = self._owners[row.inode] = owner._replace(held=held, again=now + AGAIN_SECONDS)
        return "a GPU" if owner.held else "no GPU"

    def _owner_of(self, row: Listener, processes: Processes) -> int | Literal["too much to tell", "hidden"]:
        """The first process that has this socket open, 0 if none is seen and each may be inspected."""
        hidden = False
        end = time.thread_time() + SECONDS
        for pid in sorted(process.pid for process in processes.all() if process.uid == row.uid):
            try:
                if row.inode in sockets_of(self._proc, pid):
                    return pid
            except PermissionError:
                hidden = True
            except OSError:  # it has ended
                pass
            if time.thread_time() > end:
                return "too much to tell"
        return "hidden" if hidden else 0

    def _holds(self, pid: int) -> bool:
        try:
            return any(self._is_gpu(target) for _, target in opened(self._proc, pid))
        except OSError:
            return False

    def _is_gpu(self, target: str) -> bool:
        return target.startswith(self._device) and target[len(self._device) :].isdigit()


def _candidates(process: Process, ports: tuple[int, ...], rows: list[Listener], proc: str) -> list[Listener]:
    """Where the page of a known program may be: on its expected ports, else on any on which it listens."""
    reached = [row for row in rows if row.uid == process.uid and row.address]
    if fits := [row for row in reached if row.port in ports]:
        return fits
    try:
        own = sockets_of(proc, process.pid) if reached else {}
    except OSError:  # it has ended, or may not be inspected
        return []
    return sorted([row for row in reached if row.inode in own], key=lambda row: row.port)[:PORTS]


def _may_be_server(process: Process, _processes: Processes) -> bool:
    return process.name.startswith(PROGRAMS)


def _server(arguments: list[bytes]) -> tuple[Family, tuple[int, ...]] | None:
    words = [argument.decode("ascii", "replace") for argument in arguments]
    family = family_of(words)
    return (family, ports_of(family, words)) if family else None


def parts(url: str) -> tuple[str, int, str]:
    """Address, port and path of a page on this machine. Raises ValueError."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    address, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "80")
    if not address:
        address, port = host, "80"
    address = "127.0.0.1" if address == "localhost" else address.strip("[]")
    plain = all("!" <= letter <= "~" for letter in path)
    if scheme != "http" or not port.isdigit() or not 0 < int(port) < 1 << 16 or not plain or not is_loopback(address):
        raise ValueError("not an http address of this machine")
    return address, int(port), f"/{path}" if slash else PATHS[0]
