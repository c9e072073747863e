"""What `shutdown` and `reboot` have in common: the machine's own init system does them."""

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from costguard import programs
from costguard.actions import effect, init_rights, results, shutdown_behaviour
from costguard.actions.base import Context
from costguard.cloud import api, container, dmi, managed
from costguard.cloud.api import Consequence
from costguard.files import text_of
from costguard.plans import Plan, PlanFinding, Result, Verdict

Verb = Literal["poweroff", "reboot"]

LOOK_SECONDS = 5.0
"""Seconds for a look at the init system."""

_SHUTDOWN_OPTION = {"poweroff": "-h", "reboot": "-r"}
_LOGIND_METHOD = {"poweroff": "CanPowerOff", "reboot": "CanReboot"}
_VETOES = (
    *("access denied", "inhibited", "inhibitor", "authentication required", "not authorized"),
    *("password is required", "is not allowed to execute"),
)
"""What refuses, as systemctl, logind, polkit and sudo say it."""


class GuestFacts(NamedTuple):
    """Everything the plan of a guest action needs.

    ``tool`` is the command of the init system, empty when there is none. ``container`` is the mark
    of a container, empty when there is none, None when nobody can tell. ``clouds`` are the names of
    the plug-ins that recognise this machine; ``consequence`` is set when there is exactly one, with what the cloud
    itself said of this machine before. ``nodes``: what shows that a scheduler owns it. ``fallback``: another action failed, so this one was not the owner's first wish.
    """

    action: str
    tool: tuple[str, ...]
    permission: init_rights.InitRight
    container: str | None
    stands_for_host: bool
    accept_bill: bool = False
    machine: str = ""
    clouds: tuple[str, ...] = ()
    consequence: Consequence | None = None
    plugin_failures: tuple[str, ...] = ()
    fallback: bool = False
    nodes: tuple[tuple[Verdict, PlanFinding], ...] = ()


class GuestAction:
    """An action of the machine's own init system, at most once; its plan is its own."""

    name: str
    verb: Verb

    def facts(self, context: Context) -> GuestFacts:
        """Look at the container, the init system, the permission and the firmware's identity."""
        procfs = context.host.procfs
        systemd = os.path.isdir(os.path.join(procfs, "self/root/run/systemd/system"))
        tool = _tool(self.verb, context.settings.get("delay"), systemd=systemd)
        may = init_rights.InitRight(())
        if tool:
            status = text_of(os.path.join(procfs, "self/status"), limit=-1)
            free = "NoNewPrivs:\t1" not in status  # under it sudo cannot work; source: proc_pid_status(5)
            may = init_rights.ask(tool, _LOGIND_METHOD[self.verb], systemd=systemd, new_privileges=free)
        identity = dmi.identity(context.host.sysfs)
        loaded = api.load(context.providers)
        wanted = str(context.cloud.get("provider") or "auto")
        mine = [
            (name, plugin)
            for name, plugin in loaded.named
            if (name == wanted if wanted not in {"auto", "none"} else plugin.recognises(identity))
        ]
        return GuestFacts(
            action=context.action,
            tool=tool,
            permission=may,
            container=container.evidence(procfs, os.environ),
            stands_for_host=context.host.stands_for_host,
            accept_bill=context.settings.get("accept_bill") is True,
            machine=" ".join(filter(None, (identity.get("sys_vendor"), identity.get("product_name")))),
            clouds=tuple(plugin.name for _, plugin in mine),
            consequence=_proven(mine[0][1].guest_shutdown(), context) if len(mine) == 1 else None,
            plugin_failures=loaded.failures,
            fallback=context.fallback,
            nodes=tuple(_nodes(context, mine, identity)),
        )

    def execute(self, plan: Plan, context: Context) -> Result:
        """Ask the init system once, and report what it said."""
        said = " ".join(plan.command)
        try:
            ended = effect.run(context, plan.command, environ={**os.environ, "LC_ALL": "C"})  # its words are read
        except OSError as error:
            return Result("failed", f"`{said}` could not be started: {error.strerror}")
        if ended.expired:
            return Result("unknown", f"`{said}` did not answer within {context.deadline:g} s; {_words(ended)}")
        if ended.code == 0:
            return Result("accepted", f"`{said}` was accepted by the init system", "exit code 0")
        if _vetoed(ended.output):  # somebody decided so: no technical failure, and no other action goes round it
            return Result("refused", f"`{said}` was refused: {_words(ended)}", f"exit code {ended.code}")
        return Result("failed", f"`{said}` failed: {_words(ended)}", f"exit code {ended.code}")

    def confirm(self, context: Context, recorded: Result | None) -> Result:
        """On the same boot the machine is still alive, so at best the action is on its way."""
        record, boot = results.read(context), results.boot_id(context)
        if record and boot and record.boot_id and record.boot_id != boot:  # a boot without a name is no other one
            return Result("done", "the machine has booted again since")
        if stopping():
            return Result("pending", "the init system is stopping the machine")
        if recorded is None:
            return Result("unknown", "no record of this attempt, and the machine still runs")
        if recorded.status != "accepted" or record is None:
            return recorded
        detail = f"accepted {record.age:.0f} s ago, but the machine still runs and the init system shows no shutdown"
        return Result("accepted", detail, recorded.proof)


def _nodes(
    context: Context, mine: Sequence[tuple[str, api.Provider]], firmware: Mapping[str, str]
) -> list[tuple[Verdict, PlanFinding]]:
    """What this host and the metadata service say of a scheduler. The cloud's API is not asked for a guest action."""
    found = managed.by_daemon(context.host.procfs, context.cloud)
    may_ask = context.cloud.get("metadata") == "auto" and context.cloud.get("provider") != "none"
    if found or len(mine) != 1 or not may_ask:
        return found
    name, plugin = mine[0]
    own = api.site_settings(context.cloud, name, plugin)
    site = api.Site(firmware, own, dict(os.environ), context.host.procfs, context.host.sysfs)
    return managed.by_metadata(plugin, site)


def _proven(general: Consequence, context: Context) -> Consequence:
    """What a shutdown does on this cloud, made exact by what the last plan saw of this machine."""
    said = shutdown_behaviour.known(context) if general.keeps_disks is None else ""
    return general._replace(keeps_disks=said == "stops") if said else general


def refusals(facts: GuestFacts) -> list[PlanFinding]:
    """Every reason not to touch this machine."""
    found = container.refusals(facts.container, stands_for_host=facts.stands_for_host)
    if not facts.tool:
        text = "no init system to ask: neither systemctl with a running systemd, nor shutdown in PATH; the bill would go on"
        found.append(PlanFinding("no_init", text, "install systemd or shutdown(8), or set another kill_action"))
    elif not facts.permission.command:
        text = f"this user may not run `{' '.join(facts.tool)}`: this machine would stay up and be billed"
        found.append(PlanFinding("not_permitted", text, facts.permission.missing))
    return found + [finding for verdict, finding in facts.nodes if verdict == "refuse"]


def told(facts: GuestFacts) -> list[PlanFinding]:
    """What people should know of schedulers on this machine that do not stand in the way."""
    return [finding for verdict, finding in facts.nodes if verdict != "refuse"]


def stopping() -> bool:
    """Whether systemd says that it is shutting down."""
    if shutil.which("systemctl") is None:
        return False
    try:
        return programs.run(["systemctl", "is-system-running"], LOOK_SECONDS).output == "stopping"
    except OSError:
        return False


def _tool(verb: Verb, delay: object, *, systemd: bool) -> tuple[str, ...]:
    """The init system's command. Only shutdown(8) can wait, in whole minutes."""
    minutes = math.ceil(delay / 60) if isinstance(delay, int | float) else 0
    if systemd and minutes <= 0 and shutil.which("systemctl"):
        return ("systemctl", verb)
    if shutil.which("shutdown"):
        return ("shutdown", _SHUTDOWN_OPTION[verb], f"+{minutes}" if minutes > 0 else "now")
    return ()


def _vetoed(words: str) -> bool:
    """Whether the init system, logind, polkit or sudo said no, and did not just fail."""
    lower = words.lower()
    return any(sign in lower for sign in _VETOES)


def _words(ended: programs.ProgramEnd) -> str:
    return ended.output[-300:] or f"no output, exit code {ended.code}"
