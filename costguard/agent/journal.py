"""How the guard's own lines begin, in words of people. Part of the guard."""

from collections.abc import Mapping

from costguard.engine.effects import Tell

TOLD: Mapping[str, str] = {
    "warning": "a warning goes out",
    "cancelled": "cancelled",
    "would_act": "dry run, nothing is done",
    "acting": "acting",
    "accepted": "accepted",
    "done": "done",
    "cannot": "NOT POSSIBLE",
    "failed": "FAILED",
    "next_action": "the next action",
    "asking": "asking what became of it",
    "stopping": "seen stopping",
    "outcome_unknown": "nobody can tell what became of it",
    "reminder": "still so",
    "unknown_alarm": "GPUs cannot be read",
    "unknown_recovered": "GPUs can be read again",
    "weak_sign": "one weak sign alone keeps it up",
    "held": "held",
    "hold_ended": "the hold has ended",
    "notice": "the cloud announces",
    "notes": "to know",
    "finding": "to know",
    "preflight_refused": "the plan is refused",
    "preflight_passed": "the plan passes again",
    "deadline_passed": "the deadline has passed",
    "came_back": "came back",
    "state_lost": "what was seen in this boot is lost",
    "closed": "closed",
}
"""By the kind of message. A kind that is not here begins with its own name, without underscores."""

AGAIN: Mapping[str, str] = {
    "nvml": "the GPU reader answers again",
    "cloud": "the cloud's announcements can be read again",
    "tags": "the machine's tags make sense again",
    "request": "requests are answered again",
    "hook": "the program under [hooks] works again",
    "reload": "the configuration is valid again",
    "state": "the state can be saved again",
    "commitments": "holds and deadlines can be stored again",
    "disk": "the disk answers again",
    "heartbeat": "the heartbeat is sent again",
    "history": "history is written again",
}
"""By the subject of a trouble that is over."""


def line(effect: Tell, sentence: str) -> str:
    """The line of one message: what it is about, for a refusal why, then how it stands."""
    begin = TOLD.get(effect.kind, effect.kind.replace("_", " "))
    return f"{begin}: {_why(effect)}{sentence}"


def _why(effect: Tell) -> str:
    """What stands in the way of a refused plan, or what was found; the sentence does not say it."""
    if effect.kind == "finding":
        words = effect.facts.get("text")
    elif effect.kind == "weak_sign":
        words = effect.facts.get("sign")
    elif effect.kind in {"preflight_refused", "cannot"}:
        rows = effect.facts.get("findings")
        words = rows[0][1] if isinstance(rows, list | tuple) and rows and len(rows[0]) > 1 else ""
    else:
        words = ""
    return f"{words}; " if isinstance(words, str) and words else ""


def again(subject: str) -> str:
    """That a trouble is over."""
    return AGAIN.get(subject, f"{subject.replace('_', ' ')} works again")


def bug(error: Exception, about: str = "") -> str:
    """That costguard itself failed, with where: as file and line."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else "?"
    return f"BUG in costguard, please report it: {about}{type(error).__name__}: {error} ({place})"
