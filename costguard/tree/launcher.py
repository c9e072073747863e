"""Start a command, pass signals on to it, wait for it, and end its tree when the watcher finds its GPUs idle.

It does nothing else: it reads no GPU, so nothing that a driver does can keep it from waiting.

With a controlling terminal the command stays in the launcher's process group, so that the shell's job control, Ctrl-C and
Ctrl-Z reach both at once, and nothing of that is passed on a second time. Without one it gets a session of its own.
"""

import errno
import os
import select
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from costguard.clocks import boot_clock
from costguard.engine.words import percent, several, spell
from costguard.process.wire import from_line
from costguard.tree import cgroup, terminal
from costguard.tree.begin import CANNOT_RUN, NOT_FOUND, Begin, begin
from costguard.tree.ending import TreeEnding, how, short_name
from costguard.tree.jobs import BEAT_SECONDS, Finish, Launched, LaunchJob, Origin, WatcherReport, WatchJob
from costguard.tree.members import OwnTree, mark_of
from costguard.tree.processes import TreeProcess, find, named, send
from costguard.tree.signals import BlockedSignals, Received, become_subreaper, ended_children
from costguard.tree.speech import Speech, fill_standard
from costguard.tree.watching import Watching

REFUSED = 3
"""Exit code of a command that was not started, because nothing could guard it."""

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGWINCH,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Those of which the second one of a kind is meant: it ends the tree."""

SWEEP_SECONDS = 0.05
"""For so long at once children are killed as fast as they come."""

SECOND_WITHIN_SECONDS = 30.0
SECOND_KEY_WITHIN_SECONDS = 5.0
"""A second signal, or key, counts as such for so long: who presses Ctrl-C again later means another line of a prompt."""

GUARDED_WITHIN_SECONDS = 60.0
"""For a watcher to say whether there is a GPU to guard; more than a driver takes to start."""


class Launcher:
    """One command and its tree."""

    def __init__(self, job: LaunchJob, inherited: Sequence[int] = ()) -> None:
        """``inherited``: open files that are the command's, beside standard input, output and error."""
        self._inherited = inherited
        self._job = job
        self._speech = Speech(2, stamped=job.debug)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # as this process got it
        # to write to a terminal from the background must not stop the launcher
        # not those of nohup
        heeded = [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
        self._signals = BlockedSignals([*heeded, signal.SIGCHLD, signal.SIGCONT], [signal.SIGTTOU])
        become_subreaper()
        self._tree = OwnTree(cgroup.make(f"costguard-exec-{os.getpid()}"))
        own = find(os.getpid())
        assert own is not None  # this process
        self._own = own
        self._watching = Watching("watch", WatcherReport, self._start_watcher, self._say_goes_on)
        self._has_terminal = _has_terminal()
        self._modes = terminal.modes()
        self._leader = 0
        self._group = 0  # the leader's process group
        self._status: int | None = None  # how the leader ended
        self._launched: Launched | None = None
        self._guard: WatcherReport | None = None  # the watcher's word about whether it can judge
        self._idle = False  # whether the tree was signalled because of idle GPUs
        self._ending: TreeEnding | None = None
        self._signalled: dict[int, float] = {}  # when a signal of this kind came last
        self._killed_by = 0  # the signal that came before there was a command

    def run(self) -> int:
        """Run the command and return the exit code."""
        try:
            self._start_watcher()  # before the command, so that there is no moment without one
            code = self._wait_for_guard() if self._job.require_gpu else None
            code = self._launch() if code is None else code
            return self._wait_anyhow() if code is None else code
        finally:
            signalled = self._status is not None and os.WIFSIGNALED(self._status)
            if self._modes is not None and (self._ending is not None or signalled):
                terminal.restore(self._modes)
            self._watching.end()
            self._tree.end_readers()
            if self._tree.folder:
                cgroup.remove(self._tree.folder)

    def _wait_for_guard(self) -> int | None:
        """The exit code where there is no GPU to guard, or somebody ends this before the start."""
        until = boot_clock() + GUARDED_WITHIN_SECONDS
        while self._guard is None and not self._killed_by and boot_clock() < until:
            self._watching.keep(boot_clock())
            self._turn(until)
        if self._killed_by:
            return 128 + self._killed_by
        if self._guard is not None and self._guard.kind == "guarded":
            return None
        why = self._guard.text if self._guard is not None else "the watcher did not answer"
        self._speech.say(f"refused, because --require-gpu is set: {why}; the command was not started")
        return REFUSED

    def _launch(self) -> int | None:
        """Start the command; the exit code where that fails."""
        self._launched = Launched(boot_clock())
        how = Begin(
            self._job.command, self._signals.before, mark_of(self._own), not self._has_terminal, self._tree.folder
        )
        try:
            self._leader, error = begin(how)
        except OSError as failure:  # no file or process is left for it
            error = failure.errno or errno.EAGAIN
        if error:
            return self._not_started(error)
        leader = find(self._leader)
        self._group = leader.group if leader is not None else 0
        self._watching.write(self._launched)
        _let_go(self._inherited)
        return None

    def _not_started(self, number: int) -> int:
        program = self._job.command[0] or "'' (an empty name)"
        self._speech.say(f"{program} cannot be run: {os.strerror(number)}")
        return NOT_FOUND if number == errno.ENOENT else CANNOT_RUN

    def _start_watcher(self) -> None:
        self._tree.end_readers(self._watching.pids)
        job = self._job
        watch = WatchJob(
            origin=Origin(self._own.pid, self._own.born, self._own.session, self._tree.foreign),
            mark=mark_of(self._own),
            group=self._tree.folder,
            judgement=job.judgement,
            finish=job.finish,
            debug=job.debug,
            sysfs=job.sysfs,
            devfs=job.devfs,
        )
        try:
            self._watching.start([watch, *([self._launched] if self._launched else [])])
        except OSError as error:
            self._speech.say(f"the watcher cannot be started ({error.strerror}); the command goes on unguarded")
            self._watching.died(boot_clock())

    def _say_goes_on(self, text: str) -> None:
        self._speech.say(f"{text}; the command goes on, and its GPUs are watched anew")

    def _wait_anyhow(self) -> int:
        """A bug here must not cost the command its life: then it is waited for, and nothing more."""
        try:
            return self._wait()
        except Exception as error:  # noqa: BLE001 - the launcher's boundary
            self._speech.say(
                f"internal error ({type(error).__name__}: {error}), please report it; the command goes on unguarded"
            )
        # a signal now ends the launcher, and then the watcher ends the tree
        signal.pthread_sigmask(signal.SIG_SETMASK, self._signals.before)
        while self._status is None:
            pid, status = os.waitpid(-1, 0)
            if pid == self._leader:
                self._status = status
        return self._code()

    def _wait(self) -> int:
        """Wait for the leader, and for whom it leaves behind."""
        while True:
            now = boot_clock()
            if self._ending is not None and self._ending.step(now):
                if self._status is not None or not self._leader_lives():
                    break
                self._ending = None  # the leader could not be ended; it is waited for
            if self._status is not None and self._ending is None:
                left = self._members()
                if not left:
                    break
                self._end_those_left(left)
            self._watching.keep(boot_clock())
            self._turn(self._ending.next if self._ending else float("inf"))
        return self._code()

    def _turn(self, until: float) -> None:
        """Wait for what comes first, and handle it."""
        poll = select.poll()
        poll.register(self._signals.fd, select.POLLIN)
        if self._watching.up >= 0:
            poll.register(self._watching.up, select.POLLIN)
        left = max(0.0, min(until, self._watching.restart_at or float("inf")) - boot_clock())
        ready = {fd for fd, _mask in poll.poll(int(min(left, BEAT_SECONDS) * 1000) + 1)}
        if self._signals.fd in ready:
            for received in self._signals.read():
                self._receive(received)
        elif self._watching.up in ready:  # after signals: a child that ended comes before a verdict
            self._reap()
            for word in self._watching.words():
                self._hear(word)

    def _members(self) -> list[TreeProcess]:
        return self._tree.members(self._watching.pids)

    def _leader_lives(self) -> bool:
        self._reap()
        return self._status is None

    def _reap(self) -> None:
        """Collect whoever ended: the leader, the watcher, orphans of the tree."""
        for pid, status in ended_children():
            if pid == self._leader:
                self._status = status
            self._watching.collected(pid, boot_clock())

    def _code(self) -> int:
        if self._idle:
            return self._job.idle_code
        code = os.waitstatus_to_exitcode(self._status or 0)
        return 128 - code if code < 0 else code

    def _receive(self, received: Received) -> None:
        number = received.number
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGCONT:
            self._begin_anew()
        elif not self._leader:
            self._killed_by = self._killed_by or (number if number in ENDING else 0)
        else:
            if not self._has_it_already(received):
                self._forward(number)
            if number in ENDING:
                self._count(received)

    def _has_it_already(self, received: Received) -> bool:
        """Whether the terminal signalled the whole group. Its end is told to the session's leader alone."""
        if not received.by_kernel or not self._has_terminal:
            return False
        return received.number != signal.SIGHUP or self._own.session != self._own.pid

    def _forward(self, number: int) -> None:
        """Pass a signal on to the command's process group, as far as that is its own: that of its start, and where it has gone since."""
        if self._status is not None:
            return
        members = self._members()
        groups = {self._group, *(process.group for process in members if process.pid == self._leader)}
        for process in members:
            if process.group in groups:
                send(process, number)

    def _count(self, received: Received) -> None:
        """A signal is passed on; who sends it again soon wants the tree to end."""
        now = boot_clock()
        before = self._signalled.get(received.number)
        self._signalled[received.number] = now
        within = SECOND_KEY_WITHIN_SECONDS if received.by_kernel else SECOND_WITHIN_SECONDS
        if before is None or now - before > within:
            return
        if self._ending is not None:
            self._ending.hurry(now)
            return
        finish = Finish(signal.SIGTERM, self._job.finish.grace)
        self._speech.say(f"a second {short_name(received.number)}: {self._how(finish)}")
        self._end(finish)

    def _begin_anew(self) -> None:
        """The launcher was stopped, and with it the command: what its GPUs did meanwhile says nothing. A new watcher has no past."""
        if self._launched is not None and self._watching.pid and self._ending is None:
            self._watching.end()
            self._start_watcher()

    def _hear(self, word: WatcherReport) -> None:
        if word.kind != "idle":
            self._guard = word
            if not self._launched and self._job.require_gpu:
                return
            if word.kind == "unguarded":
                self._speech.say(f"not guarded: {word.text}; the command runs on, whatever its GPUs do")
            elif self._job.debug:
                self._speech.say(f"watching {word.text}: {self._plan()}")
            return
        if self._status is not None or self._ending is not None or self._launched is None:
            return  # its own end comes first
        if self._job.dry_run:
            count = len(self._members())
            self._speech.say(
                f"DRY RUN: {word.text}; {short_name(self._job.finish.signal)} would go to {several(count, 'process', 'processes')}"
            )
            return
        told = f"{word.text}; {self._how(self._job.finish)}"  # takes its time: the tree is looked through
        self._reap()
        if self._status is None:
            self._speech.say(told)
            self._idle = True
            self._end(self._job.finish)

    def _end_those_left(self, left: Sequence[TreeProcess]) -> None:
        finish = Finish(signal.SIGTERM, self._job.finish.grace)
        self._speech.say(f"the command ended and left {named(left)}: {self._how(finish)}")
        self._end(finish)

    def _end(self, finish: Finish) -> None:
        self._ending = TreeEnding(
            self._members, finish, boot_clock(), self._speech.say, [self._tree.folder], self._sweep
        )

    def _sweep(self) -> None:
        """SIGKILL every child, over and over for a moment: one that forks its successor and exits is gone before it can be looked at.

        Only this process collects them, so no number is another one's by then.
        """
        end = boot_clock() + SWEEP_SECONDS
        while boot_clock() < end:
            self._reap()
            left = self._tree.children(self._watching.pids)
            if not left:
                return
            for pid in left:
                with suppress(OSError):  # another user's by now
                    os.kill(pid, signal.SIGKILL)

    def _how(self, finish: Finish) -> str:
        return how(finish, self._members())

    def _plan(self) -> str:
        judgement = self._job.judgement
        begins = f", from {spell(judgement.delay)} on" if judgement.delay else ""
        return f"idle after {judgement.readings} readings below {percent(judgement.threshold)}, one every {spell(judgement.interval)}{begins}"


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal, whose keys signal a group and stop jobs."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _let_go(inherited: Iterable[int]) -> None:
    """Leave what was open to the command alone: a pipe, a lock or a terminal that it closes must end for whoever is at its other end."""
    for fd in inherited:
        with suppress(OSError):
            os.close(fd)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def main() -> int:
    """Run the job whose descriptor is the one argument."""
    listed = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2 and name != sys.argv[1]]
    inherited = [fd for fd in listed if _is_open(fd)]
    with open(int(sys.argv[1]), "rb") as file:
        job = from_line(LaunchJob, file.read())
    fill_standard(inheritable=False)
    return Launcher(job, inherited).run()


def _is_open(fd: int) -> bool:
    """Whether it still is: that of the list itself is not."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
