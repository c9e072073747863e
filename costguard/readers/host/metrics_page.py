"""One page of an inference server: asked again and again, and what it has shown of requests."""

from costguard.readers.host.inference import Family, RequestCounts, requests
from costguard.readers.host.page import Fetched, Page, PageError

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0
"""Seconds before a server that gave no page is asked again: doubled each time."""


class MetricsPage:
    """A page on a loopback address. ``beside``: the process in whose network it is, 0 for this process's own.

    ``paths``: where it may be, tried one after another. ``kind``: the server that it should belong to, if known.
    ``expected``: whether a server must be there; behind a page that the owner has named none need run. ``rests``: seconds
    for which a server that was just seen at work is not asked again.
    """

    def __init__(
        self, address: str, port: int, paths: tuple[str, ...], rests: float, *, proc: str, beside: int = 0,
        expected: bool = True, kind: Family | None = None,
    ) -> None:  # fmt: skip
        self.port = port
        self._kind = kind
        self._pages = [Page(address, port, path, proc=proc, beside=beside) for path in paths]
        self._turn = 0  # which of them is asked
        self._expected, self._rests = expected, rests
        self._due, self._pause = 0.0, FIRST_PAUSE
        self._ever: float | None = None  # requests that it had had at the last page
        self.family = ""
        """What the page is of; empty until it was read."""
        self.trouble = ""
        """Why it cannot be read, without naming the server."""
        self.looked = False
        """Whether anything is known of it yet."""
        self.used: float | None = None
        """When it was asked for the page that last showed a request."""
        self.in_use = False
        """Whether the last page did."""
        self.ended = False
        """Whether nobody listened there any more."""

    def fileno(self) -> int:
        """What to wait for until the page was read once, else -1; later an answer has time until the next look."""
        return -1 if self.family and not self.trouble else self._page.fileno()

    def close(self) -> None:
        """End what is under way."""
        for page in self._pages:
            page.close()

    @property
    def _page(self) -> Page:
        return self._pages[self._turn]

    def look(self, now: float, *, ask: bool) -> None:
        """Go on, and with ``ask`` begin what is due. Never raises, never waits."""
        try:
            if (answer := self._page.look(now)) is not None:
                self._read(answer)
            works = self.in_use and self.used is not None and now < self.used + self._rests
            if ask and now >= self._due and not works:
                self._page.ask(now)
                if (answer := self._page.look(now)) is not None:
                    self._read(answer)
        except PageError as error:
            ended, self.ended = self.ended, error.refused
            self.looked, self.in_use = True, False
            if error.refused and not (self._expected and ended):
                self.trouble, self._ever = "", None
                return
            self.trouble = str(error)
            self._due, self._pause = now + self._pause, min(LONGEST_PAUSE, self._pause * 2.0)

    def _read(self, answer: Fetched) -> None:
        """Raises PageError."""
        if answer.status == 404:
            self._turn = (self._turn + 1) % len(self._pages)
            if self._turn:  # the next look asks for that one
                return
        if answer.status != 200:
            raise PageError(f"answers with status {answer.status}")
        found = self._requests(answer.body)
        self.in_use = found.now > 0.0 or (self._ever is not None and found.ever > self._ever)
        if self.in_use:
            self.used = answer.asked
        self._ever, self.family, self.ended = found.ever, found.family, False
        self.looked, self.trouble, self._pause, self._due = True, "", FIRST_PAUSE, 0.0

    def _requests(self, body: bytes) -> RequestCounts:
        """Raises PageError. Many servers show a metric only once something has happened, so their first page is empty."""
        if self._kind and not self._kind.always and not body.strip():
            return RequestCounts(self._kind.name, 0.0, 0.0)
        return requests(body)
