"""What the judge knows: the readings as the reader gave them, and the truth. Times are true seconds."""

from collections.abc import Sequence
from typing import NamedTuple

from costguard.testing.simhost import Machine
from tests.simulation.terms import NEVER, Seen, Terms, arms, busy, is_loud

KEEP = 9 * 3600.0
"""Seconds for which answers are kept: longer than any window."""

SETTLED = 30.0
"""Seconds after the end of the pre-stop hook for which what it did on the GPUs may still show."""

BLINK = 6.0
"""Seconds by which work may have begun before a request goes out: a reader may take 5 s to answer."""


TAKEN = 0.06
"""Seconds from a reading of counters to its answer: by so much evidence may end after the answer before it."""


class Look(NamedTuple):
    """One answer of the reader, a GPU that cannot be read as None."""

    at: float
    seen: tuple[Seen | None, ...]


class Sights:
    """All answers of a boot, searched anew for each question: nothing is derived from them beforehand."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.looks: list[Look] = []
        self.listed: set[object] = set()
        """GPUs that the guard has heard of."""
        self._appeared: set[object] = set()  # and any guard that remembers this boot
        self._told: set[object] = set()  # in the last answer

    def forget(self) -> None:
        """The guard remembers nothing of this boot."""
        self._appeared.clear()

    @property
    def known(self) -> int:
        """Of how many GPUs this guard certainly knows."""
        return len(self.listed & self._appeared)

    def add(self, at: float, gpus: Sequence[Sequence[object]]) -> Look:
        """The reader answered."""
        by_key = {gpu[0]: gpu for gpu in gpus}
        self.listed |= by_key.keys()
        self._told = {*by_key}
        look = Look(at, tuple(_seen(by_key.get(key)) for key in self._machine.keys))
        self.looks.append(look)
        if len(self.looks) > 2000 and self.looks[1000].at < at - KEEP:
            del self.looks[:1000]
        return look

    def taken(self) -> None:
        """A tick took the last answer: a GPU that only an earlier one told of, which no tick took, the guard need not know yet."""
        self._appeared |= self._told

    def missed(self, at: float) -> None:
        """A tick without an answer."""
        self.looks.append(Look(at, (None,) * len(self._machine.keys)))

    def known_from(self, gpu: int, law: Terms, at: float, enough: float) -> float:
        """Since when one GPU was known without a hole until ``at``; no further back than ``enough``.

        A value stands for what its evidence covers, and beside the next one for one and a half intervals.
        """
        edge, later = at, at + 0.5 * law.interval  # the tick that decides has just read
        for look in reversed(self.looks):
            if look.at > at:
                continue
            seen = look.seen[gpu]
            if look.at < edge - TAKEN and (seen is None or later - look.at > 1.5 * law.interval + 1.0):
                break
            if seen is not None:
                edge, later = min(edge, look.at - seen[2]), look.at
            else:
                later = NEVER
                if edge == at:
                    break
            if edge <= enough:
                break
        return edge

    def worked_before(
        self, law: Terms, gpus: Sequence[int], since: float, at: float, *, beside_hooks: bool = False
    ) -> float:
        """The earliest moment from which on these GPUs worked no more than is tolerated, by the truth.

        Beside the pre-stop hook, and until the GPUs have settled after it, nobody is seen who ends his work within that time, unless
        ``beside_hooks``.
        """
        left = law.tolerance
        hooks = [(began - law.interval, over + SETTLED + 2.0 * law.interval) for began, over in self._machine.hooks]
        for start, end, phase in reversed(self._machine.history(since, at)):
            until = min(end, at - BLINK)
            if not beside_hooks and any(first <= start and until <= last for first, last in hooks):
                continue
            if until > start and busy(phase, law, gpus):
                left -= until - start
                if left < -1e-6:
                    return until - max(0.0, until - start + left)
        return since

    def clear_from(self, law: Terms, at: float, since: float, *, first: float = 0.0) -> float:
        """Since when everything that the policy judges was known and quiet; no further back than ``since``.

        ``first``: for how many seconds the first value after a hole stands.
        """
        if law.lacking or not law.judged:
            return at

        def one(gpu: int) -> float:
            return max(self.known_from(gpu, law, at, since) - first, since)

        if law.together == "any":
            return min(max(one(gpu), self.worked_before(law, (gpu,), since, at)) for gpu in law.judged)
        there = self.there(law)  # that one works which is not is true all the same
        return max(*[one(gpu) for gpu in there], self.worked_before(law, law.judged, since, at)) if there else at

    def there(self, law: Terms) -> list[int]:
        """The judged GPUs of which the guard can know: since the boot they were on the bus."""
        return [gpu for gpu in law.judged if self._machine.keys[gpu] in self._appeared]


def _seen(gpu: Sequence[object] | None) -> Seen | None:
    if gpu is None or gpu[1] is None:
        return None
    load, signs, covers = gpu[1], gpu[2], gpu[3]
    assert isinstance(load, float | int)
    assert isinstance(covers, float | int)
    return float(load), bool(signs), float(covers)


class Arming:
    """Whether the machine may be armed, and whether it must be: the load above the threshold, from answer to answer."""

    def __init__(self) -> None:
        self.maybe = self.surely = False
        self.since = -NEVER  # surely armed since
        self.latest = -NEVER  # when it may have been armed last: an idle window begins no earlier
        self._from: float | None = None
        self._heard: float | None = None  # the same by one guard alone: what the one before it had not saved is lost
        self._before = -NEVER
        self._another = False  # since the last answer another guard began, which may not know of that answer
        self._blank = True  # no GPU has been read since nothing is remembered: the first answer stands for an interval

    def restarted(self) -> None:
        """Another guard goes on."""
        self.doubted()
        self._another = True

    def doubted(self) -> None:
        """The guard may not count what it saw until now."""
        self._heard = None

    def forget(self) -> None:
        """A boot, a resume, or a lost state."""
        self.maybe = self.surely = False
        self._from, self._heard, self._before = None, None, -NEVER
        self._blank = True

    def again(self) -> None:
        """Another policy: what was armed stays so."""
        self._from = self._heard = None

    def tick(self, at: float, seen: Sequence[Seen | None], law: Terms, *, sure: bool) -> None:
        """One more answer; ``sure``: the guard certainly took it."""
        before, self._before = self._before, at
        hole = at - before > 1.5 * law.interval or self._blank
        self._blank = self._blank and all(one is None for one in seen)
        began = at - law.interval if hole else min(before, at - law.interval) if self._another else before
        self._another = False
        if hole:
            self._from = self._heard = None
        if law.arm_for is None or not arms(seen, law):
            self._heard = None
            if sure:  # a guard that was killed as it looked may never have known that it was quiet
                self._from = None
            return
        self._heard = at if self._heard is None and sure else self._heard
        if self._from is None:
            self._from = began
        length = at - self._from
        if length >= law.arm_for - 2.0 and not self.surely:
            self.maybe, self.latest = True, at
        if self._heard is not None and at - self._heard >= law.arm_for + 2.0 and sure and not self.surely:
            self.surely, self.since = True, at


class Rest:
    """Since when every judged GPU has certainly been seen quiet, and since when one has not been seen: for what is due.

    What the guard may have missed counts as not seen, so nothing is expected of it too early.
    """

    def __init__(self, gpus: int) -> None:
        self._known: list[float] = [-NEVER] * gpus  # when it was known last
        self._since: list[float | None] = [None] * gpus  # quiet since then
        self._seen: list[float | None] = [None] * gpus  # known since then
        self._hidden = [False] * gpus  # not known now: what was before counts if evidence reaches over the hole
        self._mean: float | None = None
        self._worked = [-NEVER] * gpus  # at work in an answer, which the guard may have seen
        self._before = -NEVER
        self._again = False
        self.blind: float | None = None  # a judged GPU has not been read since
        self.all_known: float | None = None
        self.loud: float | None = None  # work has been seen in every tick since
        self.beside = (
            -NEVER
        )  # until then a GPU could not be read, and another one worked meanwhile: the guard may count from there
        self._worked_beside = False

    def anew(self) -> None:
        """Everything begins anew: another policy, a boot, a resume."""
        self._since, self._seen = [None] * len(self._since), [None] * len(self._seen)
        self._mean = self.loud = None

    def restarted(self, saved: float) -> None:
        """Another guard goes on, with what was saved at that moment."""
        known = zip(self._known, self._hidden, strict=True)
        # that evidence reaches over a hole and a restart is expected of nobody
        self._known = [-NEVER if hidden else min(one, saved) for one, hidden in known]
        self._mean = self.loud = self.blind = self.all_known = None
        self._again = True

    def tick(
        self, at: float, seen: Sequence[Seen | None], law: Terms, given: Sequence[Seen | None], there: Sequence[int]
    ) -> None:
        """One more tick: what the guard has seen for sure, and what the reader gave, which it may have seen.

        ``there``: judged GPUs of which it knows.
        """
        reach = 0.0 if self._again else 1.5 * law.interval
        self._again, before, self._before = False, self._before, at
        for gpu, one in enumerate(seen):
            if (shown := given[gpu]) is not None and is_loud(shown, law):
                self._worked[gpu] = at
            self._hidden[gpu] = one is None
            if one is None:
                continue
            hole = at - self._known[gpu]
            bridged = hole <= (max(reach, one[2]) if self._known[gpu] >= before else one[2])
            self._known[gpu] = at
            if not bridged or self._seen[gpu] is None:
                self._seen[gpu] = self._since[gpu] = at
            if is_loud(one, law):
                self._since[gpu] = None
            elif self._since[gpu] is None:
                self._since[gpu] = at
        hidden = law.lacking or not there or any(given[gpu] is None for gpu in there)
        self.blind = (self.blind if self.blind is not None else at) if hidden else None
        self._together(at, seen, law)

    def _together(self, at: float, seen: Sequence[Seen | None], law: Terms) -> None:
        judged = [seen[gpu] for gpu in law.judged]
        unknown = law.lacking or not judged or None in judged
        self.all_known = None if unknown else self.all_known if self.all_known is not None else at
        works = any(one is not None and is_loud(one, law) for one in judged)
        self._worked_beside = (works or self._worked_beside) if unknown else False
        self.beside = at + law.interval if self._worked_beside else self.beside
        loads = [one[0] for one in judged if one is not None]
        low = not unknown and sum(loads) / len(loads) < law.limit
        self._mean = (self._mean if self._mean is not None else at) if low else None
        loud = [one is not None and is_loud(one, law) for one in judged]
        if law.together == "mean":
            work = not unknown and not low
        else:
            work = all(loud) and bool(loud) if law.together == "any" else any(loud)
        self.loud = (self.loud if self.loud is not None else at) if work else None

    def quiet(self, law: Terms, at: float) -> float:
        """For how long it has been quiet enough to be idle."""
        if law.lacking or not law.judged:
            return 0.0
        if law.together == "mean":
            return at - self._mean if self._mean is not None else 0.0
        each = [self._rested(gpu, at) for gpu in law.judged]
        return max(each) if law.together == "any" else min(each)

    def _rested(self, gpu: int, at: float) -> float:
        since = self._since[gpu]
        return 0.0 if since is None or self._hidden[gpu] else at - since

    def worked(self, law: Terms) -> float:
        """When a judged GPU was seen at work last."""
        return max(self._worked[gpu] for gpu in law.judged)

    def unworked(self, law: Terms, at: float) -> float:
        """For how long no judged GPU has worked."""
        if law.lacking or not law.judged:
            return 0.0
        return min(self._rested(gpu, at) for gpu in law.judged)
