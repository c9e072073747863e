"""The guard's side of the cloud reader: what the cloud announces, what its tags ask for, and what the machine is.

Nothing here decides: a notice becomes an event of the engine, a tag a veto of a reader.
"""

from collections.abc import Mapping
from typing import Any

from costguard.agent.jitter import share
from costguard.agent.reader import ReaderProcess
from costguard.agent.tag_settings import milder
from costguard.cloud.access import CloudAccess
from costguard.engine.events import Event, Finding, Notice
from costguard.engine.observation import Veto
from costguard.engine.policy import Policy
from costguard.engine.window import NEVER
from costguard.host.ports import Ended, Host, Instant, Line, Report
from costguard.readers.cloud.job import CloudJob

WITHIN = 30.0
"""Seconds for one answer: a metadata service that does not answer is asked several times."""

WAIT = 10.0
"""Seconds over which the first question of a fleet that boots together is spread."""

NEAR = 900.0
"""Seconds: what the cloud announces for later is told, and keeps nothing from being stopped until then."""

SOON = 30.0
"""Seconds in which an announcement without a date is taken to come true; people are not told them as a date."""

TAKES = frozenset(("stop", "terminate", "hibernate", "reboot", "freeze"))
"""Kinds of notices that take the machine away or interrupt it; others are told only."""

TAG = "tag of the machine"

PRICE_LIMIT = 1e5
"""An hourly price above this is none."""


class CloudSide:
    """One reader, while a cloud is configured and a plug-in knows this machine. ``tell`` takes *cloud* and words."""

    def __init__(self, host: Host, config: Mapping[str, Any], instance: str, tell: Report) -> None:
        self._host, self._tell, self._instance = host, tell, instance
        self.facts: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}  # what tags ask for
        self._asked: dict[str, Any] = {}  # the price that a plan heard when it asked the cloud
        self._vetoes: tuple[tuple[Veto, float], ...] = ()  # each with its end on the boot clock
        self._told: dict[str, float] = {}  # notices by id, and for when they were announced
        self._reader: ReaderProcess | None = None
        self._place: CloudAccess | None = None
        self.adopt(config)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration."""
        live = config.get("policy", {}).get("mode") == "live"
        cloud = {**config.get("cloud", {}), "live": live}  # a question that has an effect is asked in live mode alone
        place = CloudAccess.of({**config, "cloud": cloud})
        if place == self._place:
            return
        self.stop()
        heard = self.heard
        self._place, self.facts, self.settings, self._vetoes = place, {}, {}, ()
        if place.providers and cloud.get("provider") != "none" and cloud.get("metadata") != "never":
            job = CloudJob(place, WAIT * share(self._instance))
            self._reader = ReaderProcess(self._host, "cloud", lambda: job, within=WITHIN)
        self.remember(heard)

    @property
    def told(self) -> dict[str, Any]:
        """What messages say of the machine beside the engine's facts."""
        return {"price": self.price} if self.price else {}

    @property
    def price(self) -> dict[str, Any]:
        """The best that is known of this machine's price: its Spot price, the lowest limit, the list price; else empty."""
        known = [found for found in (self._asked, self.facts.get("price")) if isinstance(found, dict) and _sound(found)]
        return min(known, key=lambda found: (found.get("kind") != "spot", found["amount"]), default={})

    def learn(self, price: Mapping[str, Any]) -> None:
        """What a plan heard of this machine's price when it asked the cloud."""
        self._asked = dict(price) or self._asked

    def milder(self, policy: Policy) -> Policy:
        """The policy with what tags of the machine ask for, as far as that is milder."""
        return milder(policy, self.settings) if self.settings else policy

    def priced(self, policy: Policy) -> Policy:
        """The policy with a price for the money in messages, where its owner named none.

        What it costs at most is no price. A budget is the owner's, and so is the price that it counts with.
        """
        price = self.price
        if policy.price_per_hour is not None or policy.budget is not None or not price or price.get("kind") == "limit":
            return policy
        return policy._replace(price_per_hour=float(price["amount"]), currency=str(price.get("currency")))

    def remember(self, saved: Mapping[str, Any]) -> None:
        """What an earlier process of this boot, or reader, heard of the tags, heeded until they can be read again; and the price."""
        cloud = self._place.cloud if self._place else {}
        self._asked = dict(saved.get("price") or {})
        if self._reader is None or cloud.get("tags") == "off" or not saved:
            return
        self.settings = dict(saved["settings"]) if cloud.get("tag_settings") is True else {}
        self._vetoes = tuple((Veto(TAG, str(words), hatch=True), float(end or NEVER)) for words, end in saved["asks"])

    @property
    def heard(self) -> dict[str, Any]:
        """What tags ask for, and the price, to be remembered over a restart; empty when there is nothing."""
        asks = [[veto.reason, None if end == NEVER else end] for veto, end in self._vetoes]
        found = {"settings": self.settings, "asks": asks, **({"price": self._asked} if self._asked else {})}
        return found if any(found.values()) else {}

    def vetoes(self, now: float) -> tuple[Veto, ...]:
        """What tags of the machine ask for, and still do."""
        return tuple([veto for veto, end in self._vetoes if now < end]) if self._vetoes else ()

    @property
    def deadline(self) -> float:
        """When an answer is late."""
        return self._reader.deadline if self._reader else float("inf")

    def owns(self, child: int) -> bool:
        """Whether this child is the reader."""
        return self._reader is not None and self._reader.child == child

    @property
    def asks(self) -> bool:
        """Whether there is a reader to ask."""
        return self._reader is not None

    def ask(self, now: float) -> None:
        """Ask; no tick waits for the answer."""
        if self._reader is not None:
            self._reader.ask(now)

    def run(self, now: Instant) -> None:
        """End a reader that hangs."""
        if self._reader is not None and self._reader.late(now.boot):
            self._tell("cloud", f"the cloud's announcements cannot be read: {self._reader.words}")

    def stop(self) -> None:
        """End the reader for good."""
        if self._reader is not None:
            self._reader.stop()
            self._reader = None

    def take(self, event: Line | Ended, now: Instant) -> list[Event]:
        """What the reader says, as events of the engine."""
        if self._reader is None:
            return []
        if isinstance(event, Ended):
            self._reader.ended(event.code, now.boot)
            self._tell("cloud", f"the cloud's announcements cannot be read: {self._reader.words}")
            return []
        answer = self._reader.line(event.data, now.boot)
        if answer is None:
            return []
        if "none" in answer:  # not rented, or from a cloud that no plug-in knows
            self.stop()
            return []
        try:
            return self._understand(answer, now.boot)
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            self._tell("cloud", f"the cloud reader's answer makes no sense ({error})")
            return []

    def _understand(self, answer: Mapping[str, Any], now: float) -> list[Event]:
        error = answer.get("error")
        self._tell("cloud", f"the cloud's announcements cannot be read: {error}" if error else None)
        self.facts = {name: answer.get(name) for name in ("cloud", "identity", "price")}
        if answer["asks"] is not None:  # else the tags could not be read yet, and what an earlier reader saw stays
            self._vetoes = tuple(
                (Veto(TAG, str(words), hatch=True), now + (left or NEVER)) for words, left in answer["asks"]
            )
            self.settings = dict(answer["settings"])
            self._tell("tags", "; ".join(map(str, answer["nonsense"])) or None)
        return [event for each in answer["notices"] if (event := self._notice(str(answer["cloud"]), each, now))]

    def _notice(self, cloud: str, given: list[Any], now: float) -> Event | None:
        """A new announcement, one that was moved, or one that has come near."""
        name, kind, due_in, words = str(given[0]), str(given[1]), given[2], str(given[3])
        due = now + (SOON if due_in is None else float(due_in))
        near = kind in TAKES and due - now <= NEAR
        key = f"{name} {near}"
        before = self._told.get(key)
        if before is not None and (due_in is None or abs(due - before) < SOON):
            return None
        self._told[key] = due
        text = f"{cloud} announces: {words}"
        return Notice(now, due, text, kind, due_in is not None) if near else Finding(now, cloud, "announced", text)


def _sound(price: Mapping[str, Any]) -> bool:
    """Whether a price can be one: from a plug-in, so nothing is believed."""
    amount = price.get("amount")
    return isinstance(amount, int | float) and not isinstance(amount, bool) and 0 < amount < PRICE_LIMIT
