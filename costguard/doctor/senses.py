"""What each sense sees now, whether what it cannot see would keep the machine up, and what it lacks the right to see."""

from collections.abc import Iterator, Mapping
from typing import Any

from costguard.doctor.finding import CheckResult, bad, note, ok, warn
from costguard.readers.host.job import HostJob
from costguard.readers.host.reader import ActiveSenses, now
from costguard.readers.host.sense import NOT_YET
from costguard.readers.host.senses import SENSES


def checks(report: Mapping[str, Any] | None, effective: Mapping[str, Any], procfs: str) -> Iterator[CheckResult]:
    """What a running agent sees; without one, what the senses see that need only one look."""
    section = effective.get("senses", {})
    if report is None and not section:
        yield note("unknown without a valid configuration or an answer of the agent")
        return
    if report is None:
        rows = list(_looked(section, procfs)) if section.get("enabled") else []
    else:
        rows = list(report["agent"].get("senses", ()))
    if not rows and effective.get("policy", {}).get("scope") == "task":
        yield note("off for a task, whose terminals and transfers are its own: load alone decides (docs/tasks.md)")
        return
    if not rows:
        yield warn(
            "no sense is switched on: the GPUs alone decide, even while somebody types or a download runs",
            "set enabled = true in [senses]",
        )
        return
    for row in rows:
        yield from _sense(row)
    off = [sense.name for sense in SENSES if sense.name not in {row["name"] for row in rows}]
    if off:
        yield note(f"switched off: {', '.join(off)}")


def _sense(row: Mapping[str, Any]) -> Iterator[CheckResult]:
    name, unknown = row["name"], row["unknown"]
    for one in row["active"]:
        blocks = "; it blocks every stop" if row.get("hatch") else ""
        yield note(f"{name}: {one['words']}{blocks}")
    if unknown == NOT_YET:
        yield note(f"{name}: it compares two readings, and has had one so far")
    elif unknown and row["required"]:
        text = f"{name} cannot see everything ({unknown}), and it is required: the machine is kept up"
        yield bad(text, f"see docs/senses.md; `required = false` in [senses.{name}] lets costguard stop it anyway")
    elif unknown:
        yield warn(
            f"{name} cannot see everything ({unknown}); it is advisory: that keeps nothing up", "see docs/senses.md"
        )
    elif not row["active"]:
        weight, kept = ("required", "the machine") if row["required"] else ("advisory", "nothing")
        yield ok(f"{name}: {row['seen'] or 'nobody'} ({weight}: what it cannot see keeps {kept} up)")


def _looked(section: Mapping[str, Any], procfs: str) -> Iterator[dict[str, Any]]:
    """One look of each sense that sends no question to another program."""
    chosen = {row.name: dict(section[row.name]) for row in SENSES if section[row.name]["enabled"]}
    senses = ActiveSenses(HostJob(chosen, procfs=procfs), asking=False)
    moment = now()
    senses.look(moment)
    for name, settings in chosen.items():
        sight = senses.sights.get(name)
        if sight is None:
            yield {"name": name, "required": settings["required"], "unknown": NOT_YET, "seen": "", "active": []}
            continue
        words = [{"words": f"{one.who} {one.what}; counts until {one.lets_go}"} for one in sight.active]
        yield {**settings, "name": name, "unknown": sight.unknown, "seen": sight.seen, "active": words}
