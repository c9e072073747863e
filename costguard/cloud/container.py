"""Whether this process runs inside a container, from marks that need no privileges."""

import os
import re
from collections.abc import Mapping

from costguard.plans import PlanFinding

_MARKS = ("self/root/.dockerenv", "self/root/run/.containerenv", "self/root/run/systemd/container")
_CGROUP = re.compile(r"docker|kubepods|containerd|crio|libpod|lxc|machine\.slice|garden", re.IGNORECASE)
_ROOT_MOUNT = re.compile(r"/docker/|containerd|containers/storage|kubelet", re.IGNORECASE)


def evidence(procfs: str, environ: Mapping[str, str]) -> str | None:
    """What shows that this is a container, for people; empty when nothing does, None when that cannot be told.

    Sources: Docker and Podman marker files, the container interface of systemd
    (``/run/systemd/container``, the ``container`` variable), cgroup paths of process 1 and the
    layers of the root mount. ``self/root`` is this process's own root, also under a host's procfs.
    """
    if environ.get("container"):
        return f"container={environ['container']} in the environment"
    for name in _MARKS:
        if os.path.exists(os.path.join(procfs, name)):
            return "there is " + name.removeprefix("self/root")
    cgroups, mounts = _text(procfs, "1/cgroup"), _text(procfs, "self/mountinfo")
    if found := _CGROUP.search(cgroups or ""):
        return f"process 1 is in a control group of {found.group()}"
    for line in (mounts or "").splitlines():
        fields = line.split()
        if len(fields) > 4 and fields[4] == "/" and " - overlay " in line and (found := _ROOT_MOUNT.search(line)):
            return f"the root file system is a layer of {found.group().strip('/')}"
    return None if cgroups is None and mounts is None else ""


def refusals(mark: str | None, *, stands_for_host: bool) -> list[PlanFinding]:
    """Why a machine action is not done from here; ``mark`` is the answer of `evidence`. Empty where it may be done."""
    if stands_for_host or mark == "":
        return []
    if mark is None:
        text = "unknown: whether this is a container; the machine is not touched, and the bill goes on"
        return [PlanFinding("container_unknown", text, "set host.procfs to a readable /proc")]
    text = f"this is a container ({mark}): the machine under it may serve others, so it is not touched"
    hint = "run costguard on the host, or set host.stands_for_host = true when this container owns the machine"
    return [PlanFinding("container", text, hint)]


def _text(procfs: str, name: str) -> str | None:
    try:
        with open(os.path.join(procfs, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
