"""Start background work on GPUs that are free, and end it when they are not: as the watcher says, which this process believes.

It reads no GPU, so nothing that a driver does can keep it from ending what it started.
"""

import os
import select
import signal
import sys
from collections.abc import Sequence

from costguard.agent.granted import VISIBLE
from costguard.background import mark_on
from costguard.clocks import boot_clock
from costguard.engine.words import spell
from costguard.fill import NAME
from costguard.fill.check import cannot, problems
from costguard.fill.jobs import Filler, FillJob, FillWatchJob, GpuView, StartedRun, View
from costguard.fill.slots import Slot, WatchedGpus, chosen, name_of
from costguard.process.wire import from_line
from costguard.tree import cgroup
from costguard.tree.begin import CANNOT_RUN, Background, Begin, Failed, Prepared
from costguard.tree.ending import TreeEnding, how, short_name
from costguard.tree.jobs import Origin
from costguard.tree.members import OwnTree, mark_of
from costguard.tree.processes import TreeProcess, find, named
from costguard.tree.signals import BlockedSignals, Received, become_subreaper, ended_children
from costguard.tree.speech import Speech, fill_standard
from costguard.tree.watching import Watching

DONE, WRONG, REFUSED = 0, 2, 3
"""Exit codes: ended as somebody asked, or with its work done; a GPU that is not there was named; there is none at all."""

FIRST_VIEW_SECONDS = 60.0
"""For a watcher to see the GPUs; more than a driver takes to start."""

TURN_SECONDS = 0.5
"""Between two looks at what is due, when nothing happens."""

BEGINS_WITHIN_SECONDS = 10.0
"""After this a command that does not run is reported: its folder, log or program is on a file system that hangs."""

_LEAVE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_UNHEEDED = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # who stands still makes room for nobody


class FillRun:
    """One command that was started, and its tree."""

    def __init__(self, slot: Slot, prepared: Prepared, mark: int, folder: str) -> None:
        self.slot, self.leader, self.mark, self.folder = slot, prepared.leader, mark, folder
        self.prepared: Prepared | None = prepared  # until it is known whether the command runs
        self.tell_at: float | None = boot_clock() + BEGINS_WITHIN_SECONDS  # that this takes long
        self.failed: Failed | None = None  # why it does not
        self.status: int | None = None  # how the leader ended
        self.ending: TreeEnding | None = None
        self.yields = False


class FillLauncher:
    """All background work of one `costguard fill`."""

    def __init__(self, job: FillJob) -> None:
        self._job = job
        self._speech = Speech(2, stamped="JOURNAL_STREAM" not in os.environ, name=NAME)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        heeded = [number for number in _LEAVE if signal.getsignal(number) is not signal.SIG_IGN]  # not those of nohup
        self._signals = BlockedSignals([*heeded, signal.SIGCHLD], _UNHEEDED)
        become_subreaper()
        self._tree = OwnTree()
        own = find(os.getpid())
        assert own is not None  # this process
        self._own = own
        self._watching = Watching("look", View, self._start_watcher, self._say_goes_on)
        self._gpus: WatchedGpus | None = None
        self._slots: list[Slot] = []
        self._runs: list[FillRun] = []
        self._count = 0  # of commands that were started
        self._leaving: int | None = None  # the exit code, once it is to leave
        self._chosen_at = 0.0

    def run(self) -> int:
        """Fill until somebody ends this, or the work is done. After a bug the watcher ends what runs."""
        works = [(filler, self._background(filler, "{gpu}", "")) for filler in self._job.fillers]
        if self._job.dry_run and self._has_problems(works):
            return WRONG
        self._start_watcher()
        until = boot_clock() + FIRST_VIEW_SECONDS
        while self._leaving is None or self._runs:
            now = boot_clock()
            self._end_what_ends(now)
            self._yield_where_due(now)
            self._tell_who_does_not_begin(now)
            if self._gpus is None and now >= until:
                self._refuse("the watcher did not answer")
            self._watching.keep(now)
            if self._leaving is None or self._runs:
                self._turn(now)
        self._watching.end()
        self._tree.end_readers()
        return self._leaving

    def _start_watcher(self) -> None:
        self._tree.end_readers(self._watching.pids)
        origin = Origin(self._own.pid, self._own.born, self._own.session, self._tree.foreign)
        watch = FillWatchJob(origin, self._job.look, self._job.finish)
        try:
            self._watching.start([watch, *(StartedRun(run.mark, run.folder) for run in self._runs)])
        except OSError as error:
            self._speech.say(f"the watcher cannot be started ({error.strerror}); nothing is started")
            self._watching.died(boot_clock())

    def _say_goes_on(self, text: str) -> None:
        self._speech.say(f"{text}; the work goes on meanwhile")

    def _turn(self, now: float) -> None:
        """Wait for what comes first, and handle it."""
        poll = select.poll()
        poll.register(self._signals.fd, select.POLLIN)
        if self._watching.up >= 0:
            poll.register(self._watching.up, select.POLLIN)
        starting = {run.prepared.fd: run for run in self._runs if run.prepared is not None}
        for fd in starting:
            poll.register(fd, select.POLLIN)
        due = [run.ending.next for run in self._runs if run.ending is not None]
        left = min(TURN_SECONDS, *(max(0.0, at - now) for at in due)) if due else TURN_SECONDS
        ready = {fd for fd, _mask in poll.poll(int(left * 1000) + 1)}
        for fd in ready & starting.keys():
            self._begun(starting[fd])
        if self._signals.fd in ready:
            for received in self._signals.read():
                self._receive(received)
        if self._watching.up in ready:
            for view in self._watching.words():
                self._see(view)

    def _receive(self, received: Received) -> None:
        if received.number == signal.SIGCHLD:
            self._reap()
        elif self._leaving is None:
            self._leave(DONE, f"received {short_name(received.number)}")
        else:
            for run in self._runs:
                if run.ending is not None:
                    run.ending.hurry(boot_clock())

    def _reap(self) -> None:
        """Collect whoever ended: leaders, the watcher, orphans of the trees."""
        for pid, status in ended_children():
            self._watching.collected(pid, boot_clock())
            for run in self._runs:
                if pid == run.leader:
                    run.status = status

    def _see(self, view: View) -> None:
        """Take one look of the watcher, and begin what may begin."""
        if self._gpus is None and not self._choose(view):
            return
        assert self._gpus is not None  # `_choose` made it
        now = boot_clock()
        for text in self._gpus.see(view, now):
            self._speech.say(text)
        if self._job.dry_run:
            self._rehearse(now)
            return
        self._yield_where_due(now)
        for slot in self._slots:
            if self._leaving is None and slot.may_begin(self._gpus, self._slots, now):
                self._begin(slot, now)

    def _choose(self, view: View) -> bool:
        """Fix the GPUs, at the first look that shows any."""
        if self._leaving is not None:
            return False
        if not view.gpus:
            if view.error:
                self._refuse(view.error)
            return False
        for number, filler in enumerate(self._job.fillers):
            keys, unknown = chosen(view, filler.gpus)
            if unknown:
                there = ", ".join([f"{one.number} ({one.uuid})" for one in view.gpus])
                self._leave(WRONG, f"there is no GPU {unknown} to use; there are {there}")
                return False
            parts = [keys] if filler.together else [[key] for key in keys]
            self._slots += [Slot(number, part, self._job.patience) for part in parts]
        self._gpus = WatchedGpus(view, boot_clock(), {key for slot in self._slots for key in slot.keys})
        self._chosen_at = boot_clock()
        if self._job.patience.idle_for > 0.0 and not self._job.dry_run:  # else nobody waits
            self._speech.say(f"work begins on a GPU that stays free for {spell(self._job.patience.idle_for)}")
        return True

    def _refuse(self, why: str) -> None:
        if self._leaving is None:
            self._leave(REFUSED, f"no GPU can be used: {why}")

    def _leave(self, code: int, why: str) -> None:
        """End everything, and then this process."""
        self._leaving = code
        self._speech.say(f"{why}; {self._how() if self._runs else 'nothing runs'}")
        for run in self._runs:
            self._end(run, yields=True)

    def _begin(self, slot: Slot, now: float) -> None:
        """Start the work of one slot. Nothing waits for it: whatever its folder, log or program lies on, the others must yield."""
        filler = self._job.fillers[slot.filler]
        self._count += 1
        folder = cgroup.make(f"costguard-fill-{self._own.pid}-{self._count}")
        how = Begin(filler.command, self._signals.before, 0, session=True, folder=folder)
        try:
            prepared = Prepared(how, self._background(filler, *self._names(slot)))
        except OSError as failure:
            cgroup.remove(folder)
            self._over(slot, CANNOT_RUN, f"{self._what(slot)} cannot be started: {failure.strerror}", now)
            return
        slot.begun(now)
        process = find(prepared.leader)
        run = FillRun(slot, prepared, mark_of(process, filler=True) if process is not None else 0, folder)
        self._runs.append(run)
        # before it does anything: who outlives this process knows of it
        self._watching.write(StartedRun(run.mark, folder))
        prepared.go()

    def _begun(self, run: FillRun) -> None:
        """Take what became of a start."""
        assert run.prepared is not None  # it was waited for
        run.failed, run.prepared = run.prepared.outcome(), None
        if run.failed is None and run.ending is None:
            self._speech.say(f"{self._what(run.slot)} begins (process {run.leader})")

    def _tell_who_does_not_begin(self, now: float) -> None:
        for run in self._runs:
            if run.prepared is not None and run.tell_at is not None and now >= run.tell_at:
                run.tell_at = None
                why = "its folder, its log or the program itself does not respond"
                self._speech.say(f"{self._what(run.slot)} has not begun for {spell(BEGINS_WITHIN_SECONDS)}: {why}")

    def _what(self, slot: Slot) -> str:
        return f"{os.path.basename(self._job.fillers[slot.filler].command[0])} on {self._place(slot)}"

    def _background(self, filler: Filler, numbers: str, uuids: str) -> Background:
        return Background(
            filler.directory.replace("{gpu}", numbers),
            {**os.environ, **filler.variables, VISIBLE: uuids},
            filler.log.replace("{gpu}", numbers),
        )

    def _names(self, slot: Slot) -> tuple[str, str]:
        """Numbers for paths, and UUIDs for the driver."""
        gpus = self._views(slot)
        numbers = "-".join([str(gpu.number) if gpu.number >= 0 else gpu.uuid for gpu in gpus])
        return numbers, ",".join([gpu.uuid for gpu in gpus])

    def _has_problems(self, works: Sequence[tuple[Filler, Background]]) -> bool:
        """Say what would keep work from being started."""
        found = dict.fromkeys([text for filler, background in works for text in problems(filler.command, background)])
        for text in found:
            self._speech.say(f"DRY RUN: {text}")
        return bool(found)

    def _rehearse(self, now: float) -> None:
        """Say what would begin where, and leave: as soon as each GPU is known, or will not be."""
        assert self._gpus is not None  # there was a look
        unknown = any(gpu.view.state == "unknown" for gpu in self._gpus.by_key.values())
        if self._leaving is not None or (unknown and now - self._chosen_at < self._job.patience.unknown_for):
            return
        works = [(slot, self._job.fillers[slot.filler]) for slot in self._slots]
        if self._has_problems([(filler, self._background(filler, *self._names(slot))) for slot, filler in works]):
            self._leaving = WRONG
            return
        for slot in self._slots:
            why = slot.waits_for(self._gpus, self._slots)
            if not why:
                slot.begun(now)
            after = self._job.patience.idle_for
            then = f"would begin once {'they have' if len(slot.keys) > 1 else 'it has'} been free for {spell(after)}"
            self._speech.say(
                f"DRY RUN: {self._what(slot)} {f'would wait: {why}' if why else then if after else 'would begin'}"
            )
        self._leaving = DONE

    def _yield_where_due(self, now: float) -> None:
        """End what has to make room."""
        if self._gpus is None:
            return
        for slot in self._slots:
            run = next((run for run in self._runs if run.slot is slot), None)
            why = slot.must_end(self._gpus, now) if run is not None else ""
            if why and run is not None and run.ending is None:
                self._speech.say(f"{why}; {self._how(run)}")
                self._end(run, yields=True)

    def _end(self, run: FillRun, *, yields: bool) -> None:
        run.yields = run.yields or yields
        if run.ending is None:
            run.ending = TreeEnding(
                lambda: self._members(run), self._job.finish, boot_clock(), self._speech.say, [run.folder]
            )
            if run.prepared is not None:  # nothing of its own runs there, and no signal but KILL is heeded
                run.ending.hurry(boot_clock())

    def _end_what_ends(self, now: float) -> None:
        """Go on with each tree that ends, and begin with those whose leader left them."""
        self._reap()
        for run in list(self._runs):
            if run.ending is None and run.status is not None:
                if run.prepared is not None:
                    self._begun(run)
                if left := self._members(run):
                    self._speech.say(
                        f"the work on {self._place(run.slot)} ended and left {named(left)}: {self._how(run)}"
                    )
                self._end(run, yields=False)
            if run.ending is not None and run.ending.step(now):
                self._ended(run, now)

    def _ended(self, run: FillRun, now: float) -> None:
        """A tree is gone."""
        self._reap()
        self._runs.remove(run)
        if run.folder:
            cgroup.remove(run.folder)
        if run.prepared is not None:
            self._begun(run)
        if run.yields:
            run.slot.yielded(now)
            return
        if run.failed is not None:
            filler = self._job.fillers[run.slot.filler]
            why = cannot(run.failed, filler.command, self._background(filler, *self._names(run.slot)))
            self._over(run.slot, CANNOT_RUN, f"{self._what(run.slot)} cannot be started: {why}", now)
            return
        code = os.waitstatus_to_exitcode(run.status) if run.status is not None else -signal.SIGKILL
        said = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        self._over(run.slot, code, f"the work on {self._place(run.slot)} ended {said}", now)

    def _over(self, slot: Slot, code: int, what: str, now: float) -> None:
        pause = slot.ended(code, now)
        again = "it is done" if slot.done else f"again in {spell(pause)}" if pause else "again when the GPU is free"
        self._speech.say(f"{what}; {again}")
        if self._slots and all(one.done for one in self._slots) and self._leaving is None:
            self._leave(DONE, "all work is done")

    def _members(self, run: FillRun) -> list[TreeProcess]:
        """The tree of one run. Who shows no sign of being another run's belongs to it, too."""
        everybody = self._tree.members(self._watching.pids)
        if len(self._runs) == 1:
            return everybody
        known = {process.pid: process for process in everybody}
        grouped = {pid: one for one in self._runs if one.folder for pid in cgroup.members(one.folder)}
        return [process for process in everybody if self._run_of(process, known, grouped) in (run, None)]

    def _run_of(
        self, process: TreeProcess, known: dict[int, TreeProcess], grouped: dict[int, FillRun]
    ) -> FillRun | None:
        if process.pid in grouped:
            return grouped[process.pid]
        above: TreeProcess | None = process
        while above is not None:
            for run in self._runs:
                if run.leader in (above.pid, above.session):
                    return run
            above = known.get(above.parent)
        mark = mark_on(process.pid)
        return next((run for run in self._runs if mark and run.mark == mark), None)

    def _views(self, slot: Slot) -> list[GpuView]:
        assert self._gpus is not None  # a slot is made of its GPUs
        return [self._gpus.by_key[key].view for key in slot.keys]

    def _place(self, slot: Slot) -> str:
        return ", ".join([name_of(view) for view in self._views(slot)])

    def _how(self, run: FillRun | None = None) -> str:
        """What is about to be done, for people."""
        members = self._members(run) if run is not None else self._tree.members(self._watching.pids)
        return how(self._job.finish, members)


def main() -> int:
    """Run the job whose descriptor is the one argument."""
    with open(int(sys.argv[1]), "rb") as file:
        job = from_line(FillJob, file.read())
    fill_standard(inheritable=False)
    return FillLauncher(job).run()


if __name__ == "__main__":
    sys.exit(main())
