"""A plan is a list of small rules, each looking at one circumstance. The same runner for every cloud; pure.

A rule takes a `Case` and yields findings with their verdicts, or nothing. Findings that are the same on every cloud are worded
here: a plug-in adds the name of a thing and the command that helps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from costguard.cloud import hints
from costguard.cloud.api import Verb
from costguard.cloud.local_disks import Use
from costguard.plans import VERDICTS, Plan, PlanFinding, Verdict, without_promises, worst

F = TypeVar("F")

Row = tuple[Verdict, PlanFinding]
Found = Iterable[Row]


class PlanCase(NamedTuple, Generic[F]):
    """What a rule looks at: an action on a machine, what is known of it, and the settings (``[cloud]``, ``[cloud.NAME]``)."""

    verb: Verb
    facts: F
    settings: Mapping[str, object]


C = TypeVar("C", bound="PlanCase[Any]")  # a plug-in's own kind of it


def decide(
    case: C,
    same: Callable[[C], Found],
    rules: Iterable[Callable[[C], Found]],
    *,
    already: Row | None,
    ends_bill: bool | None,
    keeps_disks: bool | None,
) -> Plan:
    """Ask every rule; the gravest verdict counts, and the gravest findings come first, each of them once.

    ``same`` asks whether this is the machine at all. ``already`` is the finding about a machine that ends without this
    action: then no other rule is asked, and what becomes of its disks is unknown. ``ends_bill`` and ``keeps_disks`` are
    those of the `Plan`; one that cannot be executed does not promise that the bill ends.
    """
    found = list(same(case))
    found += [already] if already else [row for rule in rules for row in rule(case)]
    found.sort(key=lambda row: VERDICTS.index(row[0]), reverse=True)
    made = Plan(
        action=case.verb,
        verdict=worst(*(verdict for verdict, _ in found)),
        findings=tuple(dict.fromkeys(finding for _, finding in found)),
        ends_bill=ends_bill,
        keeps_disks=None if already else keeps_disks,
    )
    return without_promises(made)


def refuse(code: str, text: str, hint: str) -> Row:
    """A veto."""
    return "refuse", PlanFinding(code, text, hint)


def follows(code: str, text: str, hint: str = "") -> Row:
    """A consequence: it is done, and this comes with it."""
    return "consequences", PlanFinding(code, text, hint)


def instead(code: str, text: str, hint: str) -> Row:
    """An action that does not fit this machine; ``hint`` names the one that does."""
    return "another", PlanFinding(code, text, hint)


def ends_already(shows: str, *, ends_bill: bool | None) -> Row:
    """A machine that somebody else, or an earlier attempt, has ended; ``shows`` is a clause."""
    bill = "that ends its bill" if ends_bill else "something else may stay billed, or replace it"
    return "go", PlanFinding("ends_already", f"{shows} already: nothing more is sent, and {bill}")


def not_running(cloud: str, state: str, hint: str) -> Row:
    """A machine that is neither running nor ending."""
    text = f"{cloud} shows this machine as {state or 'in no state'}, not running: nothing is sent"
    return refuse("not_running", text, hint)


def right_missing(right: str, hint: str, why: object = "") -> Row:
    """A missing right without which the action is denied; ``why`` is the cloud's own answer, if there was one."""
    text = f"the right {right} is missing: this machine would stay up and be billed{f' ({why})' if why else ''}"
    return refuse("not_permitted", text, hint)


def rights_late(text: str, needed: str) -> Row:
    """A right that is missing while the machine is young, and may still arrive; ``needed`` is its name."""
    words = f"{text}; new rights take some minutes to reach a new machine"
    return follows("rights_may_be_late", words, f"needed: {needed}; {hints.RIGHTS_ARRIVE}")


def unread(code: str, what: str, why: object, hint: str, *, passes: bool, otherwise: Verdict = "refuse") -> Row:
    """A fact that could not be read: *failed*, and asked again, where that ``passes`` by itself, else as the caller says.

    ``what`` is a noun or a clause with *whether*, ``why`` an error or empty.
    """
    text = f"unknown: {what}{f' ({why})' if why else ''}"
    return ("failed", PlanFinding(code, text, hints.AGAIN)) if passes else (otherwise, PlanFinding(code, text, hint))


def protected(what: str, command: str) -> Row:
    """A protection that a person has switched on; ``command`` takes it away."""
    text = f"{what} protects this machine; costguard never removes a protection, and the bill goes on"
    return refuse("protected", text, f"to end it anyway, remove the protection: `{command}`")


def member(group: str, hint: str) -> Row:
    """A machine that its group would replace; ``group`` is the kind and the name."""
    return refuse(
        "group_member", f"this machine belongs to the {group}, which would replace it: the bill would go on", hint
    )


def prepaid(case: PlanCase[Any], what: str) -> Found:
    """Capacity that is billed whether this machine uses it or not; ``what`` names it, and is empty for none."""
    if what and case.settings.get("prepaid") == "act":
        text = f"{what} stays billed until somebody releases it; a stop saves only the rest of this machine's price"
        yield follows("reservation_goes_on", text, "release it when nobody needs it")
    elif what:
        text = f"{what} is billed whether it is used or not: ending this machine saves nothing"
        yield refuse("prepaid", text, hints.PREPAID)


def local_data(case: PlanCase[Any], disks: str, use: Use, perhaps: str = "") -> Found:
    """Disks that end with the machine; where their use cannot be seen, they count as used. ``disks`` names them, in the plural."""
    discard = case.settings.get("local_data") == "discard"
    paged = use.swap and case.verb == "hibernate"  # then the memory that is kept is not whole without it
    if use.state in {"unused", "empty"} and not paged:
        seen = f"mounted ({_few(use.where)}) and empty" if use.state == "empty" else "not mounted"
        yield follows("local_data_lost", f"{disks} are {seen}; their data is lost")
    elif discard:
        text = f'the data on {disks} is lost for good, as cloud.local_data = "discard" allows'
        yield follows("local_data_lost", text)
    else:
        unseen = use.state == "unknown"
        why = "whether they are in use cannot be seen" if unseen else f"in use: {_few(use.where) or 'swap'}"
        text = f"the data on {disks} would be lost for good ({why}){perhaps}"
        hint = 'copy what you need and unmount it, or set cloud.local_data = "discard"'
        yield refuse("local_data_kept", text, f"set host.procfs to a readable /proc; else {hint}" if unseen else hint)


def disks_deleted(names: Sequence[str], hint: str = 'to keep them: kill_action = "stop"') -> Found:
    """Network disks that a termination deletes; nothing where there are none."""
    if names:
        yield follows("loses_disks", f"deleted with the machine, for good: {_few(names, 8)}", hint)


def disks_kept(names: Sequence[str], hint: str = "") -> Found:
    """Network disks whose bill goes on; nothing where there are none."""
    if names:
        yield "go", PlanFinding("disks_go_on", f"kept, and still billed: {_few(names, 8)}", hint)


def may_not_return(cloud: str, kind: str = "Spot") -> Row:
    """A machine on spare capacity, which may not start again after a stop."""
    text = f"a stopped {kind} machine starts again only when {cloud} has capacity for it"
    return follows("spot_may_not_return", text)


def cannot_hibernate(why: str, hint: str = 'set kill_action = "stop"') -> Row:
    """A machine whose memory cannot be kept; ``why`` is a clause."""
    return instead("cannot_hibernate", f"this machine cannot hibernate: {why}", hint)


def _few(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
