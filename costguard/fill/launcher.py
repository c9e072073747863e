"""Start background work on GPUs that are free, and end it when they are not: as the watcher says, which this process believes.

It reads no GPU, so nothing that a driver does can keep it from ending what it started.
"""

import os
import select
import signal
import sys

from costguard.agent.granted import VISIBLE
from costguard.background import mark_on
from costguard.engine.words import several, spell
from costguard.fill import NAME
from costguard.fill.jobs import Filler, FillJob, FillWatchJob, GpuView, Ran, View
from costguard.fill.slots import Gpus, Slot, chosen, name_of
from costguard.host.clock import boot_clock
from costguard.process.wire import from_line
from costguard.tree import group
from costguard.tree.begin import CANNOT_RUN, Background, Begin, begin
from costguard.tree.ending import Ending
from costguard.tree.jobs import Finish, Origin
from costguard.tree.members import OwnTree, mark_of
from costguard.tree.processes import Process, find, named
from costguard.tree.signals import Received, Signals, become_subreaper
from costguard.tree.speech import Speech, fill_standard
from costguard.tree.watching import Watching

DONE, WRONG, REFUSED = 0, 2, 3
"""Exit codes: ended as somebody asked, or with its work done; a GPU that is not there was named; there is none at all."""

FIRST_VIEW_SECONDS = 60.0
"""For a watcher to see the GPUs; more than a driver takes to start."""

TURN_SECONDS = 0.5
"""Between two looks at what is due, when nothing happens."""

_LEAVE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_UNHEEDED = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # who stands still makes room for nobody


class Run:
    """One command that was started, and its tree."""

    def __init__(self, slot: Slot, leader: int, mark: int, folder: str) -> None:
        self.slot, self.leader, self.mark, self.folder = slot, leader, mark, folder
        self.status: int | None = None  # how the leader ended
        self.ending: Ending | None = None
        self.yields = False


class Launcher:
    """All background work of one `costguard fill`."""

    def __init__(self, job: FillJob) -> None:
        self._job = job
        self._speech = Speech(2, stamped="JOURNAL_STREAM" not in os.environ, name=NAME)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        heeded = [number for number in _LEAVE if signal.getsignal(number) is not signal.SIG_IGN]  # not those of nohup
        self._signals = Signals([*heeded, signal.SIGCHLD], _UNHEEDED)
        become_subreaper()
        self._tree = OwnTree()
        own = find(os.getpid())
        assert own is not None  # this process
        self._own = own
        self._watching = Watching("look", View)
        self._gpus: Gpus | None = None
        self._slots: list[Slot] = []
        self._runs: list[Run] = []
        self._count = 0  # of commands that were started
        self._leaving: int | None = None  # the exit code, once it is to leave

    def run(self) -> int:
        """Fill until somebody ends this, or the work is done. After a bug the watcher ends what runs."""
        self._start_watcher()
        until = boot_clock() + FIRST_VIEW_SECONDS
        while self._leaving is None or self._runs:
            now = boot_clock()
            self._end_what_ends(now)
            self._yield_where_due(now)
            if self._gpus is None and now >= until:
                self._refuse("the watcher did not answer")
            if self._watching.restart_at is not None and now >= self._watching.restart_at:
                self._start_watcher()
            if self._leaving is None or self._runs:
                self._turn(now)
        self._watching.end()
        return self._leaving

    # -- waiting ---------------------------------------------------------------------------------------------

    def _start_watcher(self) -> None:
        origin = Origin(self._own.pid, self._own.born, self._own.session, self._tree.foreign)
        watch = FillWatchJob(origin, self._job.look, self._job.finish)
        try:
            self._watching.start([watch, *(Ran(run.mark, run.folder) for run in self._runs)])
        except OSError as error:
            self._speech.say(f"the watcher cannot be started ({error.strerror}); nothing is started")
            self._watching.died(boot_clock())

    def _turn(self, now: float) -> None:
        """Wait for what comes first, and handle it."""
        poll = select.poll()
        poll.register(self._signals.fd, select.POLLIN)
        if self._watching.up >= 0:
            poll.register(self._watching.up, select.POLLIN)
        due = [run.ending.next for run in self._runs if run.ending is not None]
        left = min(TURN_SECONDS, *(max(0.0, at - now) for at in due)) if due else TURN_SECONDS
        ready = {fd for fd, _mask in poll.poll(int(left * 1000) + 1)}
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
            self._leave(DONE, f"{signal.Signals(received.number).name.removeprefix('SIG')} came")
        else:
            for run in self._runs:
                if run.ending is not None:
                    run.ending.hurry(boot_clock())

    def _reap(self) -> None:
        """Collect whoever ended: leaders, the watcher, orphans of the trees."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._watching.pid:
                self._watching.died(boot_clock())
            for run in self._runs:
                if pid == run.leader:
                    run.status = status

    # -- what is seen ----------------------------------------------------------------------------------------

    def _see(self, view: View) -> None:
        """Take one look of the watcher, and begin what may begin."""
        if self._gpus is None and not self._choose(view):
            return
        assert self._gpus is not None  # `_choose` made it
        now = boot_clock()
        for text in self._gpus.see(view, now):
            self._speech.say(text)
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
        self._gpus = Gpus(view, boot_clock())
        for number, filler in enumerate(self._job.fillers):
            keys, unknown = chosen(view, filler.gpus)
            if unknown:
                there = ", ".join([f"{one.number} ({one.uuid})" for one in view.gpus])
                self._leave(WRONG, f"there is no GPU {unknown} to use; there are {there}")
                return False
            parts = [keys] if filler.together else [[key] for key in keys]
            self._slots += [Slot(number, part, self._job.patience) for part in parts]
        if self._job.patience.idle_for > 0.0:  # else nobody waits
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

    # -- beginning -------------------------------------------------------------------------------------------

    def _begin(self, slot: Slot, now: float) -> None:
        """Start the work of one slot."""
        filler, place = self._job.fillers[slot.filler], self._place(slot)
        what = f"{os.path.basename(filler.command[0])} on {place}"
        if self._job.dry_run:
            slot.begun(now)
            self._speech.say(f"DRY RUN: {what} would begin")
            return
        self._count += 1
        folder = group.make(f"costguard-fill-{self._own.pid}-{self._count}")
        how = Begin(filler.command, self._signals.before, 0, session=True, folder=folder)
        try:
            leader, error = begin(how, self._background(filler, slot))
        except OSError as failure:
            leader, error = 0, failure.errno or 0
        if not leader:
            group.remove(folder)
            self._over(slot, CANNOT_RUN, f"{what} cannot be started: {os.strerror(error)}", now)
            return
        slot.begun(now)
        process = find(leader)
        run = Run(slot, leader, mark_of(process, filler=True) if process is not None else 0, folder)
        self._runs.append(run)
        self._watching.write(Ran(run.mark, folder))
        self._speech.say(f"{what} begins (process {leader})")

    def _background(self, filler: Filler, slot: Slot) -> Background:
        gpus = self._views(slot)
        numbers = "-".join([str(gpu.number) if gpu.number >= 0 else gpu.uuid for gpu in gpus])
        named_gpus = {VISIBLE: ",".join([gpu.uuid for gpu in gpus])}
        return Background(
            filler.directory.replace("{gpu}", numbers),
            {**os.environ, **filler.variables, **named_gpus},
            filler.log.replace("{gpu}", numbers),
        )

    # -- ending ----------------------------------------------------------------------------------------------

    def _yield_where_due(self, now: float) -> None:
        """End what has to make room."""
        if self._gpus is None:
            return
        for slot in self._slots:
            why = slot.must_end(self._gpus, now) if slot.running else ""
            run = next((run for run in self._runs if run.slot is slot), None)
            if why and run is None:  # a dry run
                slot.yielded(now)
                self._speech.say(f"DRY RUN: {why}; the work on {self._place(slot)} would end")
            elif why and run is not None and run.ending is None:
                self._speech.say(f"{why}; {self._how(run)}")
                self._end(run, yields=True)

    def _end(self, run: Run, *, yields: bool) -> None:
        run.yields = run.yields or yields
        if run.ending is None:
            run.ending = Ending(
                lambda: self._members(run), self._job.finish, boot_clock(), self._speech.say, [run.folder]
            )

    def _end_what_ends(self, now: float) -> None:
        """Go on with each tree that ends, and begin with those whose leader left them."""
        self._reap()
        for run in list(self._runs):
            if run.ending is None and run.status is not None:
                if left := self._members(run):
                    self._speech.say(
                        f"the work on {self._place(run.slot)} ended and left {named(left)}: {self._how(run)}"
                    )
                self._end(run, yields=False)
            if run.ending is not None and run.ending.step(now):
                self._ended(run, now)

    def _ended(self, run: Run, now: float) -> None:
        """A tree is gone."""
        self._reap()
        self._runs.remove(run)
        if run.folder:
            group.remove(run.folder)
        if run.yields:
            run.slot.yielded(now)
            return
        code = os.waitstatus_to_exitcode(run.status) if run.status is not None else -signal.SIGKILL
        said = f"with {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        self._over(run.slot, code, f"the work on {self._place(run.slot)} ended {said}", now)

    def _over(self, slot: Slot, code: int, what: str, now: float) -> None:
        pause = slot.ended(code, now)
        again = "it is done" if slot.done else f"again in {spell(pause)}" if pause else "again when the GPU is free"
        self._speech.say(f"{what}; {again}")
        if self._slots and all(one.done for one in self._slots) and self._leaving is None:
            self._leave(DONE, "all work is done")

    # -- who and where ---------------------------------------------------------------------------------------

    def _members(self, run: Run) -> list[Process]:
        """The tree of one run. Who shows no sign of being another run's belongs to it, too."""
        everybody = self._tree.members(self._watching.pid)
        if len(self._runs) == 1:
            return everybody
        known = {process.pid: process for process in everybody}
        grouped = {pid: one for one in self._runs if one.folder for pid in group.members(one.folder)}
        return [process for process in everybody if self._run_of(process, known, grouped) in (run, None)]

    def _run_of(self, process: Process, known: dict[int, Process], grouped: dict[int, Run]) -> Run | None:
        if process.pid in grouped:
            return grouped[process.pid]
        above: Process | None = process
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

    def _how(self, run: Run | None = None) -> str:
        """What is about to be done, for people."""
        members = self._members(run) if run is not None else self._tree.members(self._watching.pid)
        finish: Finish = self._job.finish
        name = signal.Signals(finish.signal).name.removeprefix("SIG")
        return f"{name} to {several(len(members), 'process', 'processes')}, KILL after {spell(finish.grace)}"


def main() -> int:
    """Run the job whose descriptor is the one argument."""
    with open(int(sys.argv[1]), "rb") as file:
        job = from_line(FillJob, file.read())
    fill_standard(inheritable=False)
    return Launcher(job).run()


if __name__ == "__main__":
    sys.exit(main())
