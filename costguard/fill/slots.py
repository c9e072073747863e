"""When background work begins and ends: decided from what the watcher saw, with time as an argument."""

from collections.abc import Collection, Iterable, Sequence

from costguard.engine.words import spell
from costguard.fill.jobs import GpuView, Patience, View

SOON_SECONDS = 60.0
"""Work that ends by itself before that is started again later and later."""

LONGEST_PAUSE_SECONDS = 300.0


class WatchedGpu:
    """What is known of one GPU; ``since``: since when it has been free in every look."""

    def __init__(self, view: GpuView, now: float) -> None:
        self.view = view
        self.since: float | None = None
        self.sure_at = now  # when it was last known who is there

    def see(self, view: GpuView, now: float) -> bool:
        """Take a look; whether people should be told that it is otherwise now."""
        news = view.state != self.view.state or (view.state == "unknown" and view.why != self.view.why)
        self.view = view
        if view.state != "unknown":
            self.sure_at = now
        if view.state != "free":
            self.since = None
        elif self.since is None:
            self.since = now
        return news


class WatchedGpus:
    """The GPUs that the work may use and messages name; fixed at the first look."""

    def __init__(self, view: View, now: float, keys: Collection[str]) -> None:
        self.by_key = {
            one.key: WatchedGpu(one._replace(state="unknown", why=""), now) for one in view.gpus if one.key in keys
        }
        self.users = ""

    def see(self, view: View, now: float) -> list[str]:
        """Take a look; what is otherwise now, for people."""
        told = []
        if view.users != self.users:
            told.append(view.users or "nobody is at a terminal any more")
            self.users = view.users
        seen = {one.key: one for one in view.gpus}
        for key, gpu in self.by_key.items():
            missing = gpu.view._replace(state="unknown", why=view.error or "it is not listed any more")
            if gpu.see(seen.get(key, missing), now):
                told.append(describe(gpu.view))
        return told


def name_of(view: GpuView) -> str:
    """As people call it."""
    return f"GPU {view.number}" if view.number >= 0 else view.uuid or view.key


def describe(view: GpuView) -> str:
    """One GPU in one line."""
    words = {"free": "is free", "taken": f"is used by {view.why}", "unknown": f"cannot be judged: {view.why}"}
    return f"{name_of(view)} {words[view.state]}"


class Slot:
    """A place for one process of background work, on these GPUs."""

    def __init__(self, filler: int, keys: Sequence[str], patience: Patience) -> None:
        self.filler, self.keys, self._patience = filler, tuple(keys), patience
        self.running = self.done = False
        self._not_before = 0.0
        self._begun = 0.0
        self._soon = 0  # times in a row that it ended soon

    def may_begin(self, gpus: WatchedGpus, others: Iterable["Slot"], now: float) -> bool:
        """Whether every GPU of it has been free for long enough, and has a name; asked just after a look."""
        if self.running or self.done or now < self._not_before or gpus.users:
            return False
        if any(one.running and not set(one.keys).isdisjoint(self.keys) for one in others):
            return False
        mine = [gpus.by_key[key] for key in self.keys]
        return all(
            one.view.uuid and one.since is not None and now - one.since >= self._patience.idle_for for one in mine
        )

    def waits_for(self, gpus: WatchedGpus, others: Iterable["Slot"]) -> str:
        """What stands in the way of work here, however long it waits; empty for nothing."""
        if gpus.users:
            return gpus.users
        taken = {key for one in others if one.running for key in one.keys}
        for key in self.keys:
            view = gpus.by_key[key].view
            if view.state in ("taken", "unknown"):
                return describe(view)
            if key in taken:
                return f"{name_of(view)} is taken by work that comes first"
        return ""

    def must_end(self, gpus: WatchedGpus, now: float) -> str:
        """Why it has to yield; empty while it need not."""
        if gpus.users:
            return gpus.users
        for key in self.keys:
            gpu = gpus.by_key[key]
            if gpu.view.state == "taken":
                return describe(gpu.view)
            if now - gpu.sure_at > self._patience.unknown_for:
                why = gpu.view.why if gpu.view.state == "unknown" else "the watcher is silent"
                return f"{name_of(gpu.view)} could not be judged for {spell(self._patience.unknown_for)}: {why}"
        return ""

    def begun(self, now: float) -> None:
        """It runs."""
        self.running, self._begun = True, now

    def yielded(self, now: float) -> None:
        """It made room."""
        self.running, self._not_before = False, now + self._patience.rest

    def ended(self, code: int, now: float) -> float:
        """It ended by itself, or could not be started; the pause before the next time."""
        long = self.running and now - self._begun >= SOON_SECONDS
        self.running = False
        if code == 0 and self._patience.once:
            self.done = True
        self._soon = 0 if long else self._soon + 1
        pause = 0.0 if long else min(self._patience.retry * 2.0 ** min(self._soon - 1, 20), LONGEST_PAUSE_SECONDS)
        self._not_before = now + pause
        return pause


def chosen(view: View, wanted: Sequence[str]) -> tuple[list[str], str]:
    """The keys of these numbers or UUIDs, all without any; and the first that names no GPU."""
    if not wanted:
        return [one.key for one in view.gpus], ""
    found: dict[str, None] = {}
    for name in wanted:
        mine = [
            one.key for one in view.gpus if name == str(one.number) or (one.uuid and one.uuid.lower() == name.lower())
        ]
        if not mine:
            return [], name
        found[mine[0]] = None
    return list(found), ""
