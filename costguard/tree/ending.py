"""End a tree: one signal for everybody, some time to leave, then SIGKILL until nobody is left."""

import signal
import time
from collections.abc import Callable, Iterable, Sequence

from costguard.clocks import boot_clock
from costguard.engine.words import several, spell
from costguard.tree import cgroup
from costguard.tree.jobs import Finish
from costguard.tree.members import Followed
from costguard.tree.processes import TreeProcess, named, send

AGAIN_SECONDS = 0.05
"""Between two looks at who is left."""

GIVEN_UP_SECONDS = 5.0
"""After SIGKILL: a process in uninterruptible sleep, or of another user, is named and left."""


class TreeEnding:
    """One attempt to end a tree; ``find`` gives the members that live now, ``folders`` are those of their groups."""

    def __init__(
        self,
        find: Callable[[], Sequence[TreeProcess]],
        finish: Finish,
        now: float,
        say: Callable[[str], None],
        folders: Iterable[str] = (),
        sweep: Callable[[], None] = lambda: None,
    ) -> None:
        """``sweep`` kills whoever forks faster than /proc can be read."""
        self._find, self._say, self._folders = find, say, [folder for folder in folders if folder]
        self._sweep = sweep
        self._refused: set[tuple[int, int]] = set()
        self.kill_at = now + finish.grace
        self.next = now + AGAIN_SECONDS
        self._signal_once(finish.signal)

    def _signal_once(self, number: int) -> None:
        """Signal those that are there, the youngest first. What they start from now on is how they leave, and has the same time."""
        members = sorted(self._find(), key=lambda process: process.born, reverse=True)
        for process in members:
            self._send(process, number)
        for process in members:
            if process.stopped:  # it takes no signal before it goes on
                self._send(process, signal.SIGCONT)

    def _send(self, process: TreeProcess, number: int) -> None:
        if send(process, number) == "refused" and process.key not in self._refused:
            self._refused.add(process.key)
            self._say(f"{named([process])} now belongs to another user and cannot be ended from here")

    def step(self, now: float) -> bool:
        """Whether it is over: nobody is left, or only who cannot be ended."""
        if now < self.next:
            return False
        members = self._find()
        if not members:
            return True
        if now >= self.kill_at:
            for folder in self._folders:
                cgroup.kill(folder)
            for process in members:
                self._send(process, signal.SIGKILL)
            self._sweep()
            if now >= self.kill_at + GIVEN_UP_SECONDS or all(process.key in self._refused for process in members):
                self._say(f"{several(len(members), 'process', 'processes')} could not be ended: {named(members)}")
                return True
        self.next = now + AGAIN_SECONDS
        return False

    def hurry(self, now: float) -> None:
        """SIGKILL at once."""
        self.kill_at = self.next = min(now, self.kill_at)


def how(finish: Finish, members: Sequence[TreeProcess]) -> str:
    """What is about to be done, for people."""
    count = several(len(members), "process", "processes")
    return f"{short_name(finish.signal)} to {count}, KILL after {spell(finish.grace)}"


def short_name(number: int) -> str:
    """TERM, for 15."""
    return signal.Signals(number).name.removeprefix("SIG")


def end_orphaned(
    followed: Followed, finish: Finish, say: Callable[[str], None], why: str = "the launcher was killed"
) -> None:
    """End the tree that a watcher followed, for nobody else can."""
    members = followed.members()
    if members:
        name = signal.Signals(finish.signal).name
        say(f"{why}: {name} to {named(members)}, KILL after {spell(finish.grace)}")
        ending = TreeEnding(followed.members, finish, boot_clock(), say, followed.folders, followed.sweep)
        while not ending.step(boot_clock()):
            time.sleep(max(0.0, ending.next - boot_clock()))
    for folder in followed.folders:
        cgroup.remove(folder)
