"""Who kept the machine up though its GPUs were idle, out of the events of the history."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from costguard.history.query import Event

KINDS = frozenset(("keeps", "let_go"))


class Keeper(NamedTuple):
    """Somebody or something that a sense saw, and for how long that kept the machine up.

    ``begun``, ``ended``: dates; None for one whose end is not recorded. ``who`` is empty where the sense could not see. ``by``:
    what ended it. ``times``: how often it came, with short pauses.
    """

    begun: float
    ended: float | None
    sense: str
    who: str
    what: str
    user: str
    lets_go: str
    by: str
    times: int

    @property
    def words(self) -> str:
        """Who, and by which evidence."""
        seen = f"{self.who} {self.what}" if self.who else f"{self.sense} {self.what}"
        return seen + (f" ({self.times} times)" if self.times > 1 else "")


def keepers(events: Iterable[Event]) -> list[Keeper]:
    """Each of them, in order of their beginning."""
    found: list[Keeper] = []
    open_: dict[tuple[str, str], int] = {}  # where in the list
    for event in events:
        if event.kind not in KINDS:
            continue
        data = event.data
        key = _text(data, "sense"), _text(data, "who")
        if event.kind == "keeps":
            open_[key] = len(found)
            what, user, lets_go = (_text(data, name) for name in ("what", "user", "lets_go"))
            found.append(Keeper(event.wall, None, *key, what, user, lets_go, "", 1))
        elif (place := open_.pop(key, None)) is not None:
            times = data.get("times")
            found[place] = found[place]._replace(
                ended=event.wall, by=_text(data, "by"), times=times if isinstance(times, int) else 1
            )
    return sorted(found, key=lambda one: one.begun)


def _text(data: Mapping[str, Any], name: str) -> str:
    return str(data.get(name) or "")
