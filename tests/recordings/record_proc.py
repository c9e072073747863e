"""Record what /proc shows of ordinary things that need no machine: `sudo python -m tests.recordings.record_proc FILE`, two minutes.

A tmux that ann has forgotten, an agent that sends its metrics every 10 s to another host, a container that sleeps, the prober of a
monitor that starts a shell each 10 s, a log to which a line is written each second, and two SSH sessions of ann's that are open, one with
a shell, one without: nothing moves in them but keep-alives, of both ends every 5 s. In a world of its own, so that the files tell nothing
of the machine that they were made on; but the disks' counters are the machine's, so nobody else may work there meanwhile.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.recordings.record_story import OWN_WORLD, other_host
from tests.unit.readers.host.notebooks import OTHER

LOOKS, EVERY = 12, 10.0
FILES = ("stat", "status", "io", "cmdline")
KNOWN = ("->/usr/", "->/bin/", "->/dev/", "->/proc/", "->/srv/")
STATUS = ("Name:", "Tgid:", "Pid:", "Uid:", "NSpid:")
AGENT = "import socket, time\nline = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nwhile True: line.sendto(bytes(500), ('10.77.0.2', 9)); time.sleep(10)"
LOGGER = "import os, sys, time\nlog = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\nwhile True: os.write(log, b'x' * 119 + b'\\n'); os.fsync(log); time.sleep(1)"
DISKS = ("pgpgin ", "pgpgout ", "nr_dirtied ")  # of /proc/vmstat
SSH_PORT = 2222
FOLDER = f"{tempfile.gettempdir()}/recorded"
PROBER = "while :; do sh -c 'cat /proc/loadavg > /dev/null; sleep 1'; sleep 9; done"


def text(path: str) -> str:
    """A file as it is now; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def seen() -> dict[str, str]:
    """Every file that senses read, by its path below /proc; a link begins with an arrow."""
    found = {"1/net/dev": text("/proc/1/net/dev"), "loadavg": text("/proc/loadavg")}
    found["vmstat"] = "x 1\n" + "".join(
        [row for row in text("/proc/vmstat").splitlines(keepends=True) if row.startswith(DISKS)]
    )
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in FILES if pid != "1" else FILES[:2]:  # the first one is this recorder
            found[f"{pid}/{name}"] = text(f"/proc/{pid}/{name}")
        rows = found[f"{pid}/status"].splitlines(keepends=True)
        found[f"{pid}/status"] = "".join([row for row in rows if row.startswith(STATUS)])
        for name in ("exe", *(f"fd/{fd}" for fd in _listed(f"/proc/{pid}/fd"))) if pid != "1" else ():
            try:
                found[f"{pid}/{name}"] = "->" + os.readlink(f"/proc/{pid}/{name}")
            except OSError:
                continue
    return {path: _plain(what) for path, what in found.items() if what}


def _plain(what: str) -> str:
    """Without where this Python and the files of this lie, and where what it says goes."""
    python = os.path.realpath(sys.executable)
    for own, plain in ((sys.executable, "python3"), (python, "/usr/bin/python3"), (FOLDER, "/srv/recorded")):
        what = what.replace(own, plain)
    return what if not what.startswith("->/") or what.startswith(KNOWN) else "->/var/log/it"


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def sshd(folder: Path) -> None:
    """A daemon, and two sessions of ann's, with keep-alives of both ends."""
    users = (f"ann:x:{OTHER}:{OTHER}::/:/bin/bash", "sshd:x:101:65534::/run/sshd:/usr/sbin/nologin")
    (folder / "passwd").write_text("\n".join(("root:x:0:0::/root:/bin/sh", *users, "")))
    subprocess.run(["mount", "--bind", folder / "passwd", "/etc/passwd"], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("host", "ann"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    settings = f"-p{SSH_PORT} -hHOST -oAuthorizedKeysFile=KEYS -oStrictModes=no -oUsePAM=no -oClientAliveInterval=5 -oPidFile=none"
    settings = settings.replace("HOST", str(folder / "host")).replace("KEYS", str(folder / "ann.pub"))
    subprocess.Popen(["/usr/sbin/sshd", "-D", "-f/dev/null", *settings.split()])
    time.sleep(1.0)
    options = f"-F/dev/null -p{SSH_PORT} -i{folder}/ann -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null"
    for kind in (["-tt"], ["-N"]):
        alive = "-oServerAliveInterval=5"
        subprocess.Popen(
            ["ssh", *options.split(), alive, *kind, "ann@127.0.0.1"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    time.sleep(3.0)


def record(out: str) -> None:
    """In a world of its own."""
    folder = Path(FOLDER)
    folder.mkdir()
    try:
        _record(out, folder)
    finally:
        shutil.rmtree(folder)


def _record(out: str, folder: Path) -> None:
    other_host()
    sshd(folder)
    folder.chmod(0o777)  # ann's tmux has its socket there
    as_ann = [
        "setpriv",
        f"--reuid={OTHER}",
        f"--regid={OTHER}",
        "--clear-groups",
        "env",
        "-i",
        "PATH=/usr/bin:/bin",
        "TERM=dumb",
    ]
    subprocess.run(
        [*as_ann, "tmux", "-S", folder / "forgotten", "new-session", "-d", "/bin/bash --norc"],
        check=True,
    )
    for command in (
        ["sleep", "0"],
        [sys.executable, "-I", "-S", "-c", AGENT],
        ["unshare", "--pid", "--fork", "sleep", "infinity"],
        ["sh", "-c", PROBER],
        [sys.executable, "-I", "-S", "-c", LOGGER, str(folder / "log")],
    ):
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(5.0)
    looks: list[dict[str, str | None]] = []
    before: dict[str, str] = {}
    for _ in range(LOOKS):
        now = seen()
        changed: dict[str, str | None] = {path: what for path, what in now.items() if before.get(path) != what}
        looks.append(changed | dict.fromkeys(before.keys() - now.keys()))
        before = now
        time.sleep(EVERY)
    with open(out, "w", encoding="utf-8") as file:
        file.write(
            json.dumps({"every": EVERY, "ticks": os.sysconf("SC_CLK_TCK"), "looks": looks}, indent=0, sort_keys=True)
        )


if __name__ == "__main__":
    if sys.argv[2:] == ["here"]:
        record(sys.argv[1])
    else:
        sys.exit(
            subprocess.run(
                [*OWN_WORLD, sys.executable, "-m", __spec__.name, *sys.argv[1:], "here"], check=False
            ).returncode
        )
