"""SIGTERM to the processes that hold a GPU, once the cloud has accepted that this machine stops: they end before it does."""

import contextlib
import os
import signal

from costguard import holders
from costguard.actions.base import Context
from costguard.plans import Plan, PlanFinding, Result

SCAN_SECONDS = 1.0
"""Limit of the search: the message that the stop was accepted waits for it, and the machine has little time left."""

ENDING = frozenset(("stop", "terminate"))
"""Actions that end every process anyway. One that hibernates keeps them."""


def announced(decided: Plan, context: Context) -> Plan:
    """The plan, which says so beforehand where the owner asked for it."""
    if not (decided.may_act and _wanted(context)):
        return decided
    text = "once the cloud accepts, the processes that hold a GPU get SIGTERM"
    return decided._replace(findings=(*decided.findings, PlanFinding("sigterm", text)))


def _wanted(context: Context) -> bool:
    return context.hook.get("sigterm") is True and context.action in ENDING


def after(outcome: Result, context: Context) -> Result:
    """The outcome, with what became of this where the owner asked for it. Never raises."""
    if not (context.live and _wanted(context)) or outcome.status != "accepted":
        return outcome
    return outcome._replace(detail="; ".join(filter(None, (outcome.detail, _send(context.host.procfs)))))


def _send(procfs: str) -> str:
    """Send it to each, and say how many got it."""
    if not holders.numbered_as_here(procfs):
        return f"no SIGTERM was sent: the processes in {procfs} cannot be reached from here"
    found = holders.scan(procfs, SCAN_SECONDS)
    got = sum(_signal(procfs, holder.pid) for holder in found.holders if not holder.monitor)
    rest = "" if found.complete else "; there may be more"
    if not got:
        return f"no process that held a GPU got SIGTERM{rest}"
    return f"SIGTERM was sent to {got} process{'es' if got > 1 else ''} that held a GPU{rest}"


def _signal(procfs: str, pid: int) -> bool:
    """Whether it was sent; by a handle, and after another look, so that no number that was given anew is meant."""
    if pid == os.getpid():
        return False
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if holders.holds_gpu(procfs, pid):
                signal.pidfd_send_signal(handle, signal.SIGTERM)
                return True
        finally:
            os.close(handle)
    return False
