"""The kernels that one server has started, and what its list of kernels says about them.

The connection is kept open, and the token is sent to processes of its user only.
"""

import json
from typing import NamedTuple

from costguard.readers.host.errand import Errand, ErrandError
from costguard.readers.host.errand_jobs import RuntimeFound, RuntimeJob
from costguard.readers.host.kernels import Kernel, shown
from costguard.readers.host.listening import listeners, network
from costguard.readers.host.page import Fetched, Page, PageError

KERNELS = "api/kernels?no_track_activity=1"
"""Without this query the server would count every look as use."""

LIST_BYTES = 1 << 16
"""Longest list of kernels that is read: several hundred."""

FIND_SECONDS = 20.0
"""Time limit of the process that reads the runtime file."""

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0
"""Seconds before a server that gave no list is asked again: doubled each time."""

QUIET = frozenset(("idle", "starting", "restarting", "autorestarting", "terminating", "dead"))
"""States in which a kernel runs nothing; one that nobody has connected to stays *starting*."""

NAMES = 8
"""Names of busy kernels of one server told apart at most."""


class Endpoint(NamedTuple):
    """Where a server answers: ``pid``, and the port and path of its list of kernels, with the token that it wants."""

    pid: int
    port: int
    path: str
    header: str
    tls: bool

    def __repr__(self) -> str:
        """Without the token."""
        return f"Endpoint({self.pid}, {self.port})"


class Listed(NamedTuple):
    """A list of kernels: when it was asked for, the ids of all, and the names of those that are busy; many names are one."""

    asked: float
    ids: frozenset[str]
    busy: set[str]


class KernelServer:
    """The kernels below one process. ``owner``: whose Jupyter it is, in words.

    ``rests``: seconds for which a server that was just seen at work is not asked again.
    """

    def __init__(self, proc: str, kernel: Kernel, owner: str, rests: float) -> None:
        self._proc, self._kernel, self._owner, self._rests = proc, kernel, owner, rests
        self._errand: Errand[RuntimeFound] | None = None
        self._endpoint: Endpoint | None = None
        self._page: Page | None = None
        self._due, self._pause = 0.0, FIRST_PAUSE
        self.serverless = False
        """Whether no process above the kernels is a server: an editor, or a program that runs a notebook, has started them."""
        self.trouble = ""
        """Why the server cannot be asked, in words."""
        self.listed: Listed | None = None
        """The last list of the server; None while there was none, or it cannot be asked."""

    @property
    def looked(self) -> bool:
        """Whether anything is known of it yet."""
        return self.serverless or bool(self.trouble) or self.listed is not None

    def filenos(self) -> list[int]:
        """What to wait for until it is known for the first time; later an answer has the time until the next look."""
        found = [] if self._errand is None else [self._errand.fileno()]
        if self._page is not None and self.listed is None:
            found.append(self._page.fileno())
        return [fd for fd in found if fd >= 0]

    def close(self, now: float) -> None:
        """End what is under way."""
        if self._errand is not None:
            self._errand.stop(now)
            self._errand = None
        if self._page is not None:
            self._page.close()
            self._page = None

    def look(self, now: float, *, ask: bool, find: bool = False) -> bool:
        """Go on; with ``ask``, begin what is due, and with ``find``, also start a process for it. Whether one was started.

        Never raises, never waits.
        """
        before = self._errand
        try:
            self._go_on(now, ask=ask, find=find)
        except (PageError, ErrandError) as error:
            self._fail(now, str(error))
        return self._errand not in (None, before)

    def _fail(self, now: float, words: str) -> None:
        self.close(now)
        self._endpoint, self.listed, self.trouble, self.serverless = None, None, f"{self._owner} {words}", False
        self._due, self._pause = now + self._pause, min(LONGEST_PAUSE, self._pause * 2.0)

    def _go_on(self, now: float, *, ask: bool, find: bool) -> None:
        """Raises ErrandError and PageError."""
        if self._errand is not None and (found := self._errand.look(now)) is not None:
            self._errand = None
            self._take_endpoint(now, found)
        if self._page is not None and (answer := self._page.look(now)) is not None:
            self._read(answer)
        works = self.listed is not None and self.listed.busy and now < self.listed.asked + self._rests
        if self._errand is not None or not ask or now < self._due or works:
            return
        if self._endpoint is None:
            process, above = self._kernel.process, self._kernel.above
            if not above:
                self.serverless = True
                return
            if not find:
                return
            pids = tuple(one.pid for one in above)
            job = RuntimeJob(self._proc, self._kernel.folder, pids, process.uid)
            self._errand = Errand("notebook", job, RuntimeFound, now, FIND_SECONDS)
        else:
            self._ask(now, self._endpoint)

    def _take_endpoint(self, now: float, found: RuntimeFound) -> None:
        """Take the answer of the errand. Raises PageError."""
        if found.error:
            raise PageError(f"cannot be asked: {found.error}")
        if not found.pid:
            self.serverless, self.trouble, self._due = True, "", now + LONGEST_PAUSE
            return
        if found.sock:
            raise PageError("cannot be asked: it listens on no port")
        header = f"Authorization: token {found.token}" if found.token else ""
        self.serverless = False
        self._endpoint = Endpoint(found.pid, found.port, found.base + KERNELS, header, found.secure)
        self._ask(now, self._endpoint)

    def _ask(self, now: float, endpoint: Endpoint) -> None:
        """Begin a request. Raises PageError."""
        if self._page is None:
            address = self._address(endpoint)
            self._page = Page(
                address, endpoint.port, endpoint.path, header=endpoint.header, keep=True, limit=LIST_BYTES, tls=endpoint.tls,
                refuse=lambda: "" if self._address(endpoint) == address else "no longer listens on its port",
                proc=self._proc, beside=endpoint.pid if network(self._proc, endpoint.pid) else 0,
            )  # fmt: skip
        self._page.ask(now)
        if (answer := self._page.look(now)) is not None:
            self._read(answer)

    def _address(self, endpoint: Endpoint) -> str:
        """The loopback address on which a process of this user listens on its port. Raises PageError."""
        try:
            beside = endpoint.pid if network(self._proc, endpoint.pid) else 0
            found = [one for one in listeners(self._proc, beside) if one.port == endpoint.port]
        except OSError as error:
            raise PageError(f"cannot be asked: its ports cannot be seen ({error.strerror})") from error
        own = [one for one in found if one.uid == self._kernel.process.uid and one.address]
        if own and all(one.uid == own[0].uid for one in found if one.address == own[0].address):
            return own[0].address
        if any(one.uid != self._kernel.process.uid for one in found):
            raise PageError("cannot be asked: another user's process listens on its port")
        raise PageError("cannot be asked: it listens on no loopback address")

    def _read(self, answer: Fetched) -> None:
        """Take the list of kernels. Raises PageError."""
        if answer.status in (401, 403):
            raise PageError("refuses the token of its runtime file")
        if answer.status != 200:
            raise PageError(f"answers its list of kernels with status {answer.status}")
        self.listed = listed_in(answer)
        self.trouble, self._pause, self._due = "", FIRST_PAUSE, 0.0


def listed_in(answer: Fetched) -> Listed:
    """What a list of kernels says. Raises PageError if it is no such list."""
    try:
        models = json.loads(answer.body)
        rows = [(str(model["id"]), str(model["name"]), str(model["execution_state"])) for model in models]
    except (ValueError, KeyError, TypeError, RecursionError):
        rows, models = [], None
    if not isinstance(models, list):
        raise PageError("answers with something other than a list of kernels")
    if any(state != "busy" and state not in QUIET for _, _, state in rows):
        raise PageError("does not say whether a kernel is busy")
    names = {shown(name) for _, name, state in rows if state == "busy"}
    return Listed(
        answer.asked, frozenset([one for one, _, _ in rows]), names if len(names) <= NAMES else {"of many names"}
    )
