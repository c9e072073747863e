"""Whether this machine is a node of a scheduler: then only its scheduler may power it down.

A node that stops behind its scheduler loses its jobs, hangs, or is replaced. The names in a cloud's tags stand with each
plug-in; the daemons of the host in `costguard.cloud.schedulers`. The owner's configuration alone can say that nothing is scheduled here
(``cloud.managed = "standalone"``); a tag cannot.

Sources: proc(5) (``hidepid``); proc_pid_status(5) (``Uid``, ``Groups``, ``NSpid``), proc_pid_comm(5) (15 characters).
"""

import grp
import os
import stat
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from costguard.cloud.api import CloudError, Provider, Site
from costguard.cloud.retry import LateError, bounded
from costguard.cloud.schedulers import DAEMONS
from costguard.files import names_in, text_of
from costguard.plans import PlanFinding, Verdict

CODE = "managed_node"

METADATA_SECONDS = 4.0
"""Seconds for the question to the metadata service."""

POWER_DOWN: Mapping[str, str] = {
    "Kubernetes": "drain it and let its autoscaler remove it: `kubectl drain NODE`, or scale the node group down",
    "Slurm": "`scontrol update nodename=NODE state=power_down_asap reason=idle`, or set SuspendTime in slurm.conf",
    "Ray": "`ray down CLUSTER.yaml`, or set idle_timeout_minutes, after which Ray ends idle nodes itself",
    "SkyPilot": "`sky autostop -i MINUTES CLUSTER`, or `sky stop CLUSTER`",
    "dstack": "`dstack fleet delete FLEET`, or set idle_duration in the fleet's configuration",
    "Nomad": "`nomad node drain -enable NODE`, then let its autoscaler remove it",
    "HTCondor": "`condor_off -peaceful`, then the pool's own power management",
    "PBS": "`pbsnodes -o NODE`, then the power provisioning of PBS",
    "Grid Engine": "`qmod -d '*@NODE'`, then what scales the queue",
    "LSF": "`badmin hclose NODE`, then its resource connector",
    "Determined": "`det agent disable AGENT`, or set max_idle_agent_period in the master's provisioner",
}
"""The scheduler's own way to end a node that is idle."""

TAGS: Mapping[str, str] = {
    "skypilot-cluster-name": "SkyPilot",
    "skypilot-head-node": "SkyPilot",
    "ray-cluster-name": "Ray",
    "ray-node-type": "Ray",
    "dstack_project": "dstack",
}
_VALUES: Mapping[tuple[str, str], str] = {("owner", "dstack"): "dstack"}
"""Tags that mean the same on every cloud. Sources: ray, ``tags.py``; SkyPilot, ``provision/constants.py``; dstack, its backends."""

_ELSEWHERE = "end it there: make the cluster, its node group or its queue smaller"

_FIRST_USER = 1000
"""The least uid of a person. Source: login.defs(5), UID_MIN."""
_ADMIN_GROUPS, _SUDOERS = ("root", "sudo", "wheel", "admin", "docker", "lxd"), "sudoers"
_SHOWN = ("hidepid=0", "hidepid=off")
_HIDDEN = PlanFinding(
    "scheduler_unknown",
    "/proc hides other users' processes (hidepid), so a scheduler's daemon may run here unseen: this machine is not "
    "touched, and its bill goes on",
    "run costguard as root, or in the group that `gid=` of /proc names; if nothing is scheduled here: "
    'cloud.managed = "standalone"',
)
_INIT = ("systemd", "init", "")


class Node(NamedTuple):
    """The scheduler, and what shows it. ``counts`` is False where only an ordinary user says so."""

    engine: str
    evidence: str
    counts: bool = True


def by_tags(
    tags: Mapping[str, object],
    names: Mapping[str, str],
    prefixes: Mapping[str, str] = {},
    values: Mapping[tuple[str, str], str] = {},
    kind: str = "tag",
) -> tuple[str, str] | None:
    """The scheduler that tags name, and the tag that shows it; the first of ``names`` counts, then `TAGS` (SkyPilot's nodes are Ray's as well).

    ``names`` and ``prefixes`` are those of tags, ``values`` are pairs of name and value in lower case, each with its
    scheduler. ``kind`` is what the cloud calls a tag.
    """
    for name, engine in (*names.items(), *TAGS.items()):
        if name in tags:
            return engine, f"{kind} {name}"
    for name, value in tags.items():
        engine = next((engine for prefix, engine in prefixes.items() if name.startswith(prefix)), "")
        if engine:
            return engine, f"{kind} {name}"
        if engine := {**_VALUES, **values}.get((name.lower(), str(value).lower()), ""):
            return engine, f"{kind} {name} = {value}"
    return None


def finding(
    owner: tuple[str, str], settings: Mapping[str, object], power_down: Mapping[str, str] = {}
) -> tuple[Verdict, PlanFinding]:
    """A veto, unless the owner declares this machine standalone by configuration.

    ``owner`` is the scheduler and what shows it; ``power_down`` has the plug-in's own hints by scheduler.
    """
    engine, evidence = owner
    if settings.get("managed") == "standalone":
        text = f'{evidence} ({engine}), but cloud.managed = "standalone" says that nothing is scheduled here'
        return "consequences", PlanFinding(CODE, text)
    text = (
        f"this machine is a node of {engine} ({evidence}): ending it behind the scheduler's back would lose jobs or start a "
        "replacement, so it is not touched, and its bill goes on"
    )
    hint = power_down.get(engine) or POWER_DOWN.get(engine, _ELSEWHERE)
    return "refuse", PlanFinding(CODE, text, f'{hint}; if nothing is scheduled here: cloud.managed = "standalone"')


def by_daemon(procfs: str, settings: Mapping[str, object]) -> list[tuple[Verdict, PlanFinding]]:
    """What the daemons of this host say, or that nobody can see them: one finding, or none."""
    nodes = list(_nodes(procfs))
    for node in nodes:
        if node.counts:
            return [finding((node.engine, node.evidence), settings)]
    if settings.get("managed") != "standalone" and _hides_processes(procfs):
        return [("refuse", _HIDDEN)]
    for node in nodes[:1]:
        text = f"{node.evidence}, an ordinary user: that does not keep this machine up, so jobs of {node.engine} here would be lost"
        hint = "if this is a node of a cluster, run its daemon as root or as a system user"
        return [("consequences", PlanFinding("scheduler_unproven", text, hint))]
    return []


def by_metadata(plugin: Provider, site: Site) -> list[tuple[Verdict, PlanFinding]]:
    """What the metadata service says, through a plug-in that knows its scheduler's names there (``scheduler(site)``).

    No answer means nothing: guest actions are for times when the cloud cannot be asked.
    """
    ask = getattr(plugin, "scheduler", None)  # a plug-in of others may not have it
    if ask is None:
        return []
    try:
        said = bounded(lambda: ask(site), METADATA_SECONDS)
    except (CloudError, LateError):
        return []
    return [] if said is None else [finding(said, site.settings)]


def _nodes(procfs: str) -> Iterator[Node]:
    """Each scheduler's daemon on the host; one inside a container belongs to somebody's test cluster."""
    for number in sorted((name for name in names_in(procfs) if name.isdecimal()), key=int):
        node = node_of(procfs, number)
        if node is not None:
            yield node


def node_of(procfs: str, number: str) -> Node | None:
    """What this process says if it is a scheduler's daemon on the host, else None."""
    name = _text(procfs, f"{number}/comm").strip()
    engine = DAEMONS.get(name)
    if engine is None:
        return None
    status = _fields(_text(procfs, f"{number}/status"))
    if len(status.get("NSpid", ())) > 1 or not _is_daemon(procfs, number, name, status):
        return None
    uid = (status.get("Uid") or ("",))[0]
    owner = f"uid {uid}" if uid else "an unknown user"
    counts = _may_be_root(uid, status)
    if counts and _is_lent(procfs, number):
        owner, counts = "the user who started its setuid program", False
    if (status.get("State") or ("",))[0] in {"Z", "X"} or not os.path.exists(os.path.join(procfs, number)):
        return None  # it has ended, and what could not be read of it says nothing
    return Node(engine, f"{name} runs as process {number} of {owner}", counts=counts)


def _is_lent(procfs: str, number: str) -> bool:
    """Whether its program is one that makes everybody root (setuid), such as sudo: anybody may start that under a daemon's name."""
    try:
        return bool(os.stat(os.path.join(procfs, number, "exe")).st_mode & stat.S_ISUID)
    except OSError:
        return False  # gone, a kernel's thread, or not for this user to see


def _hides_processes(procfs: str) -> bool:
    """Whether the kernel shows this user no processes of others: then no daemon is seen, and none is ruled out."""
    rows = [line.partition(" - ")[2].split() for line in _text(procfs, "self/mountinfo").splitlines()]
    options = {option for row in rows if row[:1] == ["proc"] for option in row[-1].split(",")}
    hides = any(option.startswith("hidepid=") and option not in _SHOWN for option in options)
    return hides and not _text(procfs, "1/status")


def _may_be_root(uid: str, status: Mapping[str, tuple[str, ...]]) -> bool:
    """Root, a system user, or somebody who may become root: nobody else may keep a bill going by naming a process so.

    Unknown counts as root: then the machine stays up.
    """
    if not uid.isdecimal() or int(uid) < _FIRST_USER:
        return True
    groups = set(status.get("Groups", ())) | set((status.get("Gid") or ())[:1])
    return bool(groups & _admin_groups())


def _admin_groups() -> set[str]:
    """The numbers of the groups whose members may become root, of those that exist here."""
    return {
        str(entry.gr_gid)
        for entry in grp.getgrall()
        if entry.gr_name in _ADMIN_GROUPS or entry.gr_name.endswith(_SUDOERS)
    }


def _is_daemon(procfs: str, number: str, name: str, status: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether it is a real daemon, not just a program of the same name; what cannot be read counts as one."""
    words = _text(procfs, f"{number}/cmdline").split("\0")
    if len(words) < 2:
        return True
    if name == "nomad":
        return "agent" in words[1:]
    if name == "raylet":
        return not _own_ray(procfs, words, status)
    return True


def _own_ray(procfs: str, words: list[str], status: Mapping[str, tuple[str, ...]]) -> bool:
    """A program's own Ray (``ray.init()``): the head is this machine, and its parent is the program, not init.

    Source: ray, ``services.py`` (``--gcs-address`` and ``--node_ip_address`` of the raylet).
    """
    options = dict(word.lstrip("-").replace("-", "_").partition("=")[::2] for word in words if "=" in word)
    head, me = options.get("gcs_address", "").rpartition(":")[0], options.get("node_ip_address", "")
    parent = (status.get("PPid") or ("1",))[0]
    return bool(head) and head == me and _text(procfs, f"{parent}/comm").strip() not in _INIT


def _fields(text: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(rest.split()) for name, _, rest in (line.partition(":") for line in text.splitlines())}


def _text(procfs: str, path: str) -> str:
    return text_of(os.path.join(procfs, path), limit=-1)
