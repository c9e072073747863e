"""What the guard writes to its journal: its sentence, its messages, and its own troubles. Resident: no heavy imports."""

from collections.abc import Mapping

from costguard.engine.effects import Tell
from costguard.engine.machine import Step
from costguard.engine.narrate import STARTING, Sentence
from costguard.engine.state import Core
from costguard.host.ports import Host, Unwatched

LOG_EVERY_SECONDS = 60.0
"""While the state is the same, a changed sentence is logged at most this often."""

_PRIORITY = {"info": "<5>", "warning": "<4>", "critical": "<2>"}

PREFIXES: Mapping[str, str] = {
    "warning": "warning",
    "cancelled": "cancelled",
    "would_act": "dry run, nothing done",
    "acting": "acting",
    "accepted": "accepted",
    "done": "done",
    "cannot": "NOT POSSIBLE",
    "failed": "FAILED",
    "next_action": "next action",
    "asking": "checking the outcome",
    "stopping": "began to stop",
    "outcome_unknown": "OUTCOME UNKNOWN",
    "reminder": "reminder",
    "unknown_alarm": "something cannot be seen",
    "unknown_recovered": "everything can be seen again",
    "kept_up": "kept up without GPU work",
    "weak_sign": "only a weak sign of work",
    "held": "held",
    "hold_ended": "hold ended",
    "notice": "cloud notice",
    "notes": "note",
    "finding": "note",
    "preflight_refused": "plan refused",
    "preflight_passed": "plan passes again",
    "deadline_passed": "deadline passed",
    "came_back": "came back",
    "state_lost": "saved state lost",
    "unguarded": "NOT GUARDED",
    "closed": "confirmed",
    "countdown": "countdown",
    "deadline_ahead": "deadline ahead",
    "deadline_extended": "deadline extended",
    "armed": "armed",
    "summary": "summary",
}
"""By kind of message. A kind that is not here is its own prefix, without underscores."""

RECOVERED: Mapping[str, str] = {
    "channels": "every channel has its addresses again",
    "clock": "the clock is synchronised again, and the lease counts",
    "nvml": "the GPU reader works again",
    "cloud": "cloud notices can be read again",
    "host": "terminals, servers and traffic can be seen again",
    "tags": "the instance tags are valid again",
    "request": "requests are answered again",
    "reload": "the configuration is valid again",
    "state": "the state can be saved again",
    "commitments": "holds and deadlines can be saved again",
    "disk": "the disk responds again",
    "heartbeat": "heartbeats are sent again",
    "history": "history is written again",
}
"""By subject of a trouble."""


def line(effect: Tell, sentence: str) -> str:
    """The line of one message: its prefix, its detail if the sentence lacks it, the sentence."""
    if effect.kind == "unguarded":  # the sentence promises what nobody is there to do
        return f"{PREFIXES[effect.kind]}: costguard ended during a countdown; nothing happens until it runs again"
    prefix = PREFIXES.get(effect.kind, effect.kind.replace("_", " "))
    return f"{prefix}: {_detail(effect)}{sentence}"


def _detail(effect: Tell) -> str:
    """Why a plan is refused, or what was found."""
    detail: object = ""
    if effect.kind == "finding":
        subjects = effect.facts.get("subjects")
        named = ", ".join(map(str, subjects)) if isinstance(subjects, list | tuple) else ""
        detail = f"{named}: {effect.facts.get('text')}"
    elif effect.kind == "notes":
        detail = effect.facts.get("text")
    elif effect.kind == "weak_sign":
        detail = effect.facts.get("sign")
    elif effect.kind == "kept_up":
        rows = effect.facts.get("keepers")
        detail = rows[0][1] if isinstance(rows, list | tuple) and rows else ""
    elif effect.kind in {"preflight_refused", "cannot"}:
        rows = effect.facts.get("findings")
        detail = rows[0][1] if isinstance(rows, list | tuple) and rows and len(rows[0]) > 1 else ""
    return f"{detail}; " if isinstance(detail, str) and detail else ""


def recovered(subject: str) -> str:
    """The line that says that a trouble is over."""
    if subject.startswith("sense "):
        return f"the {subject} sees everything again"
    return RECOVERED.get(subject, f"{subject.replace('_', ' ')} works again")


def bug(error: Exception, about: str = "") -> str:
    """The line that says that costguard itself failed, with file and line."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else "?"
    return f"BUG in costguard, please report it: {about}{type(error).__name__}: {error} ({place})"


class Journal:
    """Writes each line once: a sentence when it changes, a trouble when it begins and when it is over."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._logged: tuple[tuple[str, ...], float] = (("",), 0.0)  # the key of the last sentence, and when
        self._logged_of: Core | None = None  # whose sentence that is; any change makes another core
        self.troubles: dict[str, str] = {}
        """What is wrong with the guard itself, by subject."""

    def trouble(self, subject: str, message: str | Unwatched | None) -> None:
        """Log once that a part of the guard itself fails, and once (None) that it works again, or that nobody looks."""
        before = self.troubles.get(subject)
        if isinstance(message, str):
            if message != before:
                self.troubles[subject] = message
                self._host.say(f"<3>{message}")
        elif before is not None:
            del self.troubles[subject]
            unwatched = isinstance(message, Unwatched)
            self._host.say(
                f"<5>no longer watched under the new configuration: {before}"
                if unwatched
                else f"<5>{recovered(subject)}"
            )

    def tell(self, effect: Tell, sentence: Sentence, at: float) -> None:
        """Log a message to people, which says the sentence too."""
        self._host.say(_PRIORITY[effect.level] + line(effect, str(sentence)))
        self._logged = (sentence.key, at)

    def log(self, last: Step, at: float) -> bool:
        """Log the sentence if it changed; whether it was logged."""
        sentence, core = last.sentence, last.state.core
        key, logged_at = self._logged
        if core is self._logged_of and (key[0] != STARTING or sentence.word == STARTING):
            return False  # as in most ticks: only the time is new, and only a start is over by itself
        self._logged_of = core if sentence.key == key else None
        if sentence.key == key or (sentence.key[0] == key[0] and at - logged_at < LOG_EVERY_SECONDS):
            return False
        self._logged = (sentence.key, at)
        self._host.say(f"<6>{sentence}")
        return True
