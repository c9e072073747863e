"""The channels of messages, as far as a look can tell: nothing is sent."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.cloud import secret
from costguard.cloud.access import CloudAccess
from costguard.cloud.api import CloudError
from costguard.config.addresses import Lack, gets_warnings
from costguard.config.values import REFERENCE
from costguard.doctor.finding import CheckResult, bad, note, ok, warn
from costguard.engine.words import date, duration, several
from costguard.history import FILE, query
from costguard.history.deliveries import LastDelivery, last_deliveries
from costguard.history.query import HistoryError
from costguard.masking import mask
from costguard.notify import secret_urls, tested
from costguard.notify.message import DeliveryError
from costguard.notify.usable import troubles
from costguard.report import picture

UNHEARD = "a warning"
"""The first words of the check that says whether anybody would get the warning."""


def checks(
    effective: Mapping[str, Any], places: Mapping[str, str], report: Mapping[str, Any] | None
) -> Iterator[CheckResult]:
    """Whether a warning would reach anybody now, by the same look as a delivery takes."""
    if "notify" not in effective:
        return
    notify = effective["notify"]
    local, beyond = notify.get("local", ()), notify.get("channels", {})
    task = ((report or {}).get("agent") or {}).get("task") or {}
    inside = ("task",) if task.get("tells") and "task" not in local else ()
    last, unread = _history(effective, [*local, *beyond]) if beyond else ({}, [])
    unusable = {one.channel: one for one in troubles(beyond)} if beyond else {}
    told = {name for name, one in beyond.items() if gets_warnings(one.get("level"), one.get("kinds") or ())}
    looks = [_here(name, places, report) for name in (*inside, *local)]
    for name in beyond:
        own = last.get(name, LastDelivery())
        check = _beyond(effective, name, own, unusable.get(name))
        # of what nobody can tell here, no failure is claimed
        looks.append(_Look((check,), name in told and (own.partly or check.level in {"ok", "note"})))
    for look in looks:
        yield from look.checks
    yield from unread
    if beyond and not picture.installed():
        yield note("messages have no picture: matplotlib is not installed", picture.install())
    if not any(look.reaches for look in looks):
        yield _nobody(effective, some=bool(told))


class _Look(NamedTuple):
    """A look at one channel: its checks, and whether a warning would reach somebody there now."""

    checks: tuple[CheckResult, ...]
    reaches: bool


def _here(name: str, places: Mapping[str, str], report: Mapping[str, Any] | None) -> _Look:
    """A look at a channel of this machine."""
    if name == "wall":
        found = tuple(_wall(places, uid_of(places["procfs"], report)))
        return _Look(found, found[0].level == "ok")
    if name == "terminal":
        text = _terminal(places["procfs"], report)
        return _Look((note(text),), text.startswith("terminal: the agent"))
    assert name == "task", f"add {name} to `_here` of doctor/messages.py"
    text = "task: the output of the guarded task; only the first message shows whether it arrives there"
    return _Look((note(text),), reaches=True)


def _nobody(effective: Mapping[str, Any], *, some: bool) -> CheckResult:
    """What happens to a warning that no channel takes; ``some``: a channel beyond the machine would get it."""
    policy = effective.get("policy", {})
    grace, wait = float(policy.get("grace") or 0.0), float(policy.get("unreached_wait") or 0.0)
    after = several(policy.get("warn_attempts", 3), "try", "tries")
    goes_on = f"goes on, {duration(max(grace, wait))} longer than otherwise" if grace and wait else "goes on anyway"
    where = "may" if some else "would"  # what nobody tested may still work
    hint = "a `url` under [sink] gets a record of every incident in live mode"
    if "wall" not in effective["notify"].get("local", ()):
        hint = f'add "wall" to local under [notify]; {hint}'
    if effective["notify"].get("channels") and not some:
        hint = f'no channel asks for warnings: give one level "warning"; {hint}'
    return warn(f"{UNHEARD} {where} reach only the journal now; after {after} the countdown {goes_on}", hint)


def _history(
    effective: Mapping[str, Any], channels: Sequence[str]
) -> tuple[Mapping[str, LastDelivery], list[CheckResult]]:
    """What became of the last real messages, and why that is unknown."""
    path = os.path.join(effective["paths"]["state"], FILE)
    if not os.path.lexists(path):
        return {}, []
    try:
        with query.reading(path) as database:
            return last_deliveries(database, channels), []
    except HistoryError as error:
        text = f"whether the last messages arrived is unknown: {error.message}"
        return {}, [note(text, error.hint or "")]


def _beyond(effective: Mapping[str, Any], name: str, last: LastDelivery, lack: Lack | None) -> CheckResult:
    """A channel beyond the machine: what is wrong with it, else how it is known to work."""
    found = _unreadable(effective, name) or _unread(effective, name) or _unusable(effective, lack)
    if found and (found.level != "note" or not last.lost):
        return found
    test = _last_test(effective, name)
    retested = isinstance(test, tested.LastTest) and test.ok and last.failed is not None and test.at > last.failed
    if last.lost and not retested:
        story = f"; `costguard history {last.incident}` tells the rest" if last.incident else ""
        since = " (this user may not see whether it was tested since)" if isinstance(test, PermissionError) else ""
        hint = f"correct it, then `sudo costguard notify test --channel {name}`{story}"
        return warn(
            f"{name}: the last message, on {date(last.failed or 0.0)}, did not arrive{since}: {mask(last.why)}", hint
        )
    return found or _tested(effective, name, test, last)


def _unusable(effective: Mapping[str, Any], lack: Lack | None) -> CheckResult | None:
    """Why apprise cannot use the addresses of a channel now, whatever arrived there before."""
    if lack is None or not lack.certain:
        return None
    live = effective.get("policy", {}).get("mode") == "live" and not lack.partly
    return (bad if live else warn)(
        f"{lack.channel}: nothing can be sent: {lack.why}", "`costguard config check` says more"
    )


def _unreadable(effective: Mapping[str, Any], name: str) -> CheckResult | None:
    """Why the file with the addresses of a channel cannot be used; what only the agent's own process has is its own matter."""
    reference = str(effective["notify"]["channels"][name].get("urls", ""))
    if not reference.startswith("file:"):
        return None
    try:
        secret_urls.read(reference, {})
    except DeliveryError as error:
        if os.geteuid() != 0 and isinstance(error.__cause__, PermissionError):
            text = f"{name}: this user may not read its addresses, so doctor cannot tell whether they were tested"
            return note(text, "`sudo costguard doctor` can")
        live = effective.get("policy", {}).get("mode") == "live"
        return (bad if live else warn)(f"{name}: nothing can be sent: {mask(str(error))}")
    return None


def _unread(effective: Mapping[str, Any], name: str) -> CheckResult | None:
    """Why the addresses of a channel cannot be read from the cloud, as far as that is known without asking it."""
    found = REFERENCE.fullmatch(str(effective["notify"]["channels"][name].get("urls", "")))
    if found is None or found["secret"] is None:
        return None
    try:
        secret.check(found["secret"], CloudAccess.of(effective))
    except CloudError as error:
        return warn(f"{name}: the secret {found['secret']} cannot be read: {mask(error.told)}", error.hint)
    return None


def _last_test(effective: Mapping[str, Any], name: str) -> tested.LastTest | PermissionError | None:
    """The last test with the settings of now; None where there was none, an error where this user may not know."""
    try:
        return tested.last(effective["paths"]["state"], name, effective["notify"]["channels"][name])
    except PermissionError as error:
        return error


def _tested(
    effective: Mapping[str, Any], name: str, test: tested.LastTest | PermissionError | None, last: LastDelivery
) -> CheckResult:
    """Whether a test message, or a real one, arrived at the address of now."""
    try_it = f"sudo costguard notify test --channel {name}"
    urls = str(effective["notify"]["channels"][name].get("urls", ""))
    if isinstance(test, PermissionError):
        return note(f"{name}: this user may not see whether it was tested", "`sudo costguard doctor` sees it")
    still = _still_tested(urls, test) if test is not None and test.ok else False
    if test is not None and still:
        return ok(f"{name}: took a test on {date(test.at)}")
    if test is not None and still is None:
        text = f"{name}: took a test on {date(test.at)}; doctor cannot tell whether its address is still the one tested"
        return note(text, try_it)
    if last.taken is not None and (test is None or last.taken > test.at) and _older(urls, last.taken):
        # no proof: since then the configuration may have named another place
        return note(f"{name}: took a message on {date(last.taken)}; never tested with these settings", try_it)
    if test is None:
        return warn(f"{name}: never tested with these settings, so it is unknown whether messages arrive", try_it)
    if not test.ok:
        return warn(f"{name}: the test of {date(test.at)} did not arrive", try_it)
    return warn(f"{name}: its address is not the one that was tested on {date(test.at)}", try_it)


def _older(reference: str, at: float) -> bool:
    """Whether the addresses stand unchanged since a date, as far as anybody can tell."""
    path = reference.removeprefix("file:")
    try:
        return path == reference or os.stat(path).st_ctime < at
    except OSError:
        return False


def _still_tested(reference: str, found: tested.LastTest) -> bool | None:
    """Whether the addresses of now are those of the test; None where doctor cannot read them, or none were kept.

    Those of a variable or a credential are the agent's alone, and the cloud's store is not asked here.
    """
    if not reference.startswith("file:") or not found.addresses:
        return None
    try:
        return found.same(secret_urls.read(reference, {}))
    except DeliveryError:
        return None


def uid_of(procfs: str, report: Mapping[str, Any] | None) -> int:
    """The agent's user, whose rights count; else this user."""
    try:
        return os.stat(f"{procfs}/{report['agent']['pid']}").st_uid if report else os.geteuid()
    except OSError:
        return os.geteuid()


def _wall(places: Mapping[str, str], uid: int) -> Iterator[CheckResult]:
    """First the terminals that it would reach, then each that it would not."""
    from costguard.notify.wall import counted, likely

    reached, failed = likely(places["procfs"], places["devfs"], uid)
    if reached:
        yield ok(f"wall: {counted(reached, places['devfs'])} now")
    else:
        yield note("wall: nobody is logged in at a terminal of this machine now")
    for path, reason in failed.items():
        yield note(f"wall: {path}: {reason}")


def _terminal(procfs: str, report: Mapping[str, Any] | None) -> str:
    if report is None:
        return "terminal: no agent is running"
    try:
        target = os.readlink(f"{procfs}/{report['agent']['pid']}/fd/2")
    except OSError:
        return "terminal: only root and the agent's user can see whether it has one"
    return (
        f"terminal: the agent's is {target}"
        if target.startswith(("/dev/pts/", "/dev/tty"))
        else "terminal: it has none"
    )
