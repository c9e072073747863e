"""Where this process runs: in a service of the system's own systemd, perhaps with fewer rights than root has elsewhere."""

import os

from costguard.files import text_of

SYSTEMD_RUN = "systemd-run"
_SETUID = 1 << 7
"""CAP_SETUID; capabilities(7)."""


def in_service(procfs: str = "/proc") -> bool:
    """Whether this process is root's, and belongs to a system service that a running systemd started."""
    if _field(procfs, "Uid:", 1) != "0" or not os.path.isdir(f"{procfs}/self/root/run/systemd/system"):
        return False
    groups = [line.rpartition(":")[2] for line in text_of(f"{procfs}/self/cgroup").splitlines()]
    return any(group.endswith(".service") and not group.startswith("/user.slice/") for group in groups)


def may_change_user(procfs: str = "/proc") -> bool:
    """Whether this process may become another user; where that cannot be seen, it tries."""
    effective = _field(procfs, "CapEff:", 0)
    return not effective or bool(int(effective, 16) & _SETUID)


def command(within: float, procfs: str = "/proc") -> list[str]:
    """The words to put before one of costguard's own command lines so that it may become another user; often none.

    ``within``: seconds after which all of it is ended.
    """
    if may_change_user(procfs) or not in_service(procfs):
        return []
    path = next((found for folder in os.get_exec_path() if os.access(found := f"{folder}/{SYSTEMD_RUN}", os.X_OK)), "")
    if not path:
        return []
    options = ("--wait", "--pipe", "--collect", "--quiet", "--no-ask-password", "--service-type=exec")
    return [path, *options, f"--property=RuntimeMaxSec={within:g}", "--property=SyslogIdentifier=costguard", "--"]


def _field(procfs: str, name: str, number: int) -> str:
    """Of ``self/status``; empty where it cannot be read."""
    lines = text_of(f"{procfs}/self/status").splitlines()
    return next((line.split()[1 + number] for line in lines if line.startswith(name)), "")
