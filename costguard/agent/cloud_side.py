"""The guard's side of the cloud reader: notices, instance tags, identity and price of the machine.

Nothing is decided here: a notice becomes an event of the engine, a tag a reader's veto.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from costguard.agent.jitter import jitter_of
from costguard.agent.reader import ReaderProcess, ReaderSide
from costguard.agent.tag_settings import relax
from costguard.cloud.access import CloudAccess
from costguard.engine.events import Event, Finding, Notice
from costguard.engine.observation import Veto
from costguard.engine.policy import Policy
from costguard.engine.window import NEVER
from costguard.host.ports import UNWATCHED, Ended, Host, Instant, Line, Report
from costguard.process.wire import MalformedError, build, plain
from costguard.readers.cloud.job import NOTHING_KNOWN, CloudAnswer, CloudJob

ANSWER_WITHIN_SECONDS = 30.0
"""For one answer: a metadata service that does not answer is asked several times."""

SPREAD_SECONDS = 10.0
"""Over which the first requests of a fleet that boots together are spread."""

NEAR_SECONDS = 900.0
"""A notice for a later date is announced to people, and blocks no stop until then."""

UNDATED_SECONDS = 30.0
"""In which a notice without a date is taken to come true; people are not given this as a date."""

STANDING_SECONDS = 300.0
"""A notice without a date that the cloud still shows is given to the engine again so often: it has not failed to come true."""

STANDS_LONGEST_SECONDS = 7200.0
"""After so long it is no reason any more to leave the machine alone. Google Cloud announces maintenance an hour ahead."""

GONE_SECONDS = 900.0
"""What comes back after so long is announced anew."""

INTERRUPTING = frozenset(("stop", "terminate", "hibernate", "reboot", "freeze"))
"""Kinds of notices that end or interrupt the machine; others are only announced to people."""

TAG = "instance tag"

UNREADABLE = "cloud notices and instance tags cannot be read"

PRICE_LIMIT = 1e5
"""An hourly price above this is not believed."""


class Announced(NamedTuple):
    """A notice that the cloud shows: its date, and when it was first and last seen, on the boot clock."""

    due: float
    first: float
    seen: float


class CloudMemory(NamedTuple):
    """What is known by tags and of the price, for the next guard. ``asks``: each with its end on the boot clock, None for never."""

    settings: Mapping[str, object]
    asks: tuple[tuple[str, float | None], ...]
    price: Mapping[str, object] = {}


class CloudSide(ReaderSide):
    """One reader, while a plug-in knows this machine. ``report`` gets the subjects *cloud* and *tags*."""

    def __init__(self, host: Host, config: Mapping[str, Any], instance: str, report: Report) -> None:
        self._host, self._report, self._instance = host, report, instance
        self.facts: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}  # from tags
        self._plan_price: dict[str, Any] = {}  # from the last plan that asked the cloud for it
        self._vetoes: tuple[tuple[Veto, float], ...] = ()  # each with its end on the boot clock
        self._announced: dict[str, Announced] = {}  # notices by id
        self._said: dict[str, Any] = {}  # the last answer as it came, and as a value
        self._answer = NOTHING_KNOWN
        self._access: CloudAccess | None = None
        self.adopt(config)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration."""
        live = config.get("policy", {}).get("mode") == "live"
        cloud = {**config.get("cloud", {}), "live": live}  # a request with an effect is sent in live mode alone
        access = CloudAccess.of({**config, "cloud": cloud})
        if access == self._access:
            return
        self.stop()
        self._report("cloud", UNWATCHED)
        memory = self.memory
        self._access, self.facts, self.settings, self._vetoes = access, {}, {}, ()
        if access.providers and cloud.get("provider") != "none" and cloud.get("metadata") != "never":
            job = CloudJob(access, SPREAD_SECONDS * jitter_of(self._instance))
            self._reader = ReaderProcess(self._host, "cloud", lambda: job, within=ANSWER_WITHIN_SECONDS)
        self.remember(memory)

    @property
    def message_facts(self) -> dict[str, Any]:
        """Facts for messages, beside the engine's."""
        found = {"price": self.price, "start": self.facts.get("start"), "resume": self.facts.get("resume")}
        return {name: fact for name, fact in found.items() if fact}

    @property
    def price(self) -> dict[str, Any]:
        """The best known price of this machine: its Spot price, else the lowest of limit and list price; else empty."""
        prices: list[dict[str, Any]] = list(filter(_believable, (self._plan_price, self.facts.get("price"))))
        return min(prices, key=lambda price: (price.get("kind") != "spot", price["amount"]), default={})

    def learn_price(self, price: Mapping[str, Any]) -> None:
        """Take the price from a plan that asked the cloud; an empty one changes nothing."""
        self._plan_price = dict(price) or self._plan_price

    def relaxed(self, policy: Policy) -> Policy:
        """The policy, relaxed by instance tags."""
        return relax(policy, self.settings) if self.settings else policy

    def priced(self, policy: Policy) -> Policy:
        """The policy with a price for the money in messages, where its owner named none.

        A limit is not a price. With a budget, the price is the owner's too.
        """
        price = self.price
        if policy.price_per_hour is not None or policy.budget is not None or not price or price.get("kind") == "limit":
            return policy
        return policy._replace(price_per_hour=float(price["amount"]), currency=str(price.get("currency")))

    def remember(self, saved: object) -> None:
        """Go on with the `memory` of an earlier process of this boot, or reader: its tags count until they are read again."""
        cloud = self._access.cloud if self._access else {}
        try:
            memory = build(CloudMemory, saved)
        except MalformedError:  # there was nothing
            self._plan_price = {}
            return
        self._plan_price = dict(memory.price)
        if self._reader is None or cloud.get("tags") == "off":
            return
        self.settings = dict(memory.settings) if cloud.get("tag_settings") is True else {}
        self._vetoes = tuple((Veto(TAG, text, hatch=True), end or NEVER) for text, end in memory.asks)

    @property
    def memory(self) -> object:
        """Tags and price, for `remember` after a restart; None when there is nothing."""
        asks = tuple([(veto.reason, None if end == NEVER else end) for veto, end in self._vetoes])
        memory = CloudMemory(self.settings, asks, self._plan_price)
        return plain(memory) if any(memory) else None

    def vetoes(self, now: float) -> tuple[Veto, ...]:
        """The vetoes of instance tags that have not ended."""
        return tuple([veto for veto, end in self._vetoes if now < end]) if self._vetoes else ()

    def ask(self, now: float) -> None:
        """Ask; no tick waits for the answer."""
        if self._reader is not None:
            self._reader.ask(now)

    def run(self, now: Instant) -> None:
        """End a reader that hangs."""
        if self._reader is not None and self._reader.late(now.boot):
            self._report("cloud", f"{UNREADABLE}: {self._reader.failure}")

    def take(self, event: Line | Ended, now: Instant) -> list[Event]:
        """The reader's line as events of the engine."""
        if self._reader is None:
            return []
        if isinstance(event, Ended):
            self._reader.ended(event.code, now.boot)
            self._report("cloud", f"{UNREADABLE}: {self._reader.failure}")
            return []
        line = self._reader.line(event.data, now.boot)
        if line is None:
            return []
        said = {**line, "read": 0}
        try:
            if said != self._said:  # in most ticks nothing but the number of the read is new
                self._answer, self._said = build(CloudAnswer, said), said
        except MalformedError as error:
            self._report("cloud", f"{UNREADABLE}: malformed answer from the cloud reader ({error})")
            return []
        if self._answer.none:  # not rented, or from a cloud that no plug-in knows
            self.stop()
            return []
        return self._events(self._answer, now.boot)

    def _events(self, answer: CloudAnswer, now: float) -> list[Event]:
        self._report("cloud", f"{UNREADABLE}: {answer.error}" if answer.error else None)
        self.facts = {name: getattr(answer, name) for name in ("cloud", "identity", "price", "start", "resume")}
        if answer.asks is not None:  # else the tags could not be read yet, and those of an earlier reader stay
            self._vetoes = tuple((Veto(TAG, text, hatch=True), now + (left or NEVER)) for text, left in answer.asks)
            self.settings = dict(answer.settings or {})
            self._report("tags", "; ".join(answer.nonsense) or None)
        return [event for notice in answer.notices if (event := self._notice(answer.cloud, notice, now))]

    def _notice(self, cloud: str, notice: tuple[str, str, float | None, str], now: float) -> Event | None:
        """The event for a notice that is new, was moved, or has come near."""
        name, kind, due_in, words = notice
        due = now + (UNDATED_SECONDS if due_in is None else due_in)
        near = kind in INTERRUPTING and due - now <= NEAR_SECONDS
        key = f"{name} {near}"
        known = self._announced.get(key)
        if known is not None and now - known.seen > GONE_SECONDS:
            known = None
        self._announced[key] = (known or Announced(due, now, now))._replace(seen=now)
        if known is not None:
            stands = near and due_in is None and now - known.first <= STANDS_LONGEST_SECONDS
            if abs(due - known.due) < (
                STANDING_SECONDS if stands else UNDATED_SECONDS if due_in is not None else NEVER
            ):
                return None
            self._announced[key] = known._replace(due=due, seen=now)
        text = f"{cloud} announces: {words}"
        return Notice(now, due, text, kind, due_in is not None) if near else Finding(now, (cloud,), "announced", text)


def _believable(price: object) -> TypeGuard[dict[str, Any]]:
    """Whether this is a price: it comes from a plug-in, so everything is checked."""
    amount = price.get("amount") if isinstance(price, dict) else None
    return isinstance(amount, int | float) and not isinstance(amount, bool) and 0 < amount < PRICE_LIMIT
