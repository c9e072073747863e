"""The channels of messages, as far as a look can tell: nothing is sent."""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from costguard.cloud import secret
from costguard.cloud.access import CloudAccess
from costguard.cloud.api import CloudError
from costguard.config.values import REFERENCE
from costguard.doctor.finding import CheckResult, bad, note, ok, warn
from costguard.engine.words import several
from costguard.masking import mask
from costguard.notify import secret_urls, tested
from costguard.notify.message import DeliveryError
from costguard.report import picture


def checks(
    effective: Mapping[str, Any], places: Mapping[str, str], report: Mapping[str, Any] | None
) -> Iterator[CheckResult]:
    """Whether a warning would reach anybody now, found as a delivery finds it. Nothing is sent."""
    if "notify" not in effective:
        return
    channels = [*effective["notify"].get("local", ()), *effective["notify"].get("channels", ())]
    reached = False
    for name in channels:
        if name == "wall":
            open_now = list(_wall(places, uid_of(places["procfs"], report)))
            reached = reached or open_now[0].level == "ok"
            yield from open_now
        elif name == "terminal":
            text = _terminal(places["procfs"], report)
            reached = reached or text.startswith("terminal: the agent")
            yield note(text)
        else:
            own = _unreadable(effective, name) or _unread(effective, name) or _tested(effective, name)
            reached = reached or own.level in {"ok", "note"}  # of what nobody can tell here, no failure is claimed
            yield own
    if effective["notify"].get("channels") and not picture.installed():
        yield note("messages have no picture: matplotlib is not installed", picture.install())
    if not reached:
        tries = effective.get("policy", {}).get("warn_attempts", 3)
        after = several(tries, "try", "tries")
        where = "may" if effective["notify"].get("channels") else "would"  # what nobody tested may still work
        text = f"a warning {where} reach only the journal now; after {after} the countdown goes on anyway"
        hint = "a `url` under [sink] gets a record of every incident in live mode"
        if "wall" not in channels:
            hint = f'add "wall" to local under [notify]; {hint}'
        yield warn(text, hint)


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


def _tested(effective: Mapping[str, Any], name: str) -> CheckResult:
    """Whether a test message arrived over a channel beyond this machine, with its present settings."""
    try_it = f"sudo costguard notify test --channel {name}"
    try:
        found = tested.last(effective["paths"]["state"], name, effective["notify"]["channels"][name])
    except PermissionError:
        return note(f"{name}: this user may not see whether it was tested", "`sudo costguard doctor` sees it")
    if found is None:
        return warn(f"{name}: never tested with these settings, so it is unknown whether messages arrive", try_it)
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.at))
    if not found.arrived:
        return warn(f"{name}: the test of {date} did not arrive", try_it)
    still = _still_tested(str(effective["notify"]["channels"][name].get("urls", "")), found)
    if still is None:
        text = f"{name}: a test arrived on {date}; doctor cannot tell whether its address is still the one tested"
        return note(text, try_it)
    if not still:
        return warn(f"{name}: its address is not the one that was tested on {date}", try_it)
    return ok(f"{name}: a test arrived on {date}")


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
