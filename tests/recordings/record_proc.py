"""Record what /proc shows of ordinary things that need no machine: `sudo python -m tests.recordings.record_proc FILE`, two minutes.

A tmux that ann has forgotten, an agent that sends its metrics every 10 s to another host, a container that sleeps, the prober of a
monitor that starts a shell each 10 s. In a world of its own, so that the files tell nothing of the machine that they were made on.
"""

import json
import os
import subprocess
import sys
import time

from tests.recordings.record_story import OWN_WORLD, other_host
from tests.unit.readers.host.notebooks import OTHER

LOOKS, EVERY = 12, 10.0
FILES = ("stat", "status", "io", "cmdline")
KNOWN = ("->/usr/", "->/bin/", "->/dev/", "->/proc/")
STATUS = ("Name:", "Tgid:", "Pid:", "Uid:", "NSpid:")
AGENT = "import socket, time\nline = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nwhile True: line.sendto(bytes(500), ('10.77.0.2', 9)); time.sleep(10)"
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
    """Without where this Python lies, and where what it says goes."""
    for own, plain in ((sys.executable, "python3"), (os.path.realpath(sys.executable), "/usr/bin/python3")):
        what = what.replace(own, plain)
    return what if not what.startswith("->/") or what.startswith(KNOWN) else "->/var/log/it"


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def record(out: str) -> None:
    """In a world of its own."""
    other_host()
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
        [*as_ann, "tmux", "-S", f"/tmp/.forgotten-{time.time():.0f}", "new-session", "-d", "/bin/bash --norc"],
        check=True,
    )
    for command in (
        ["sleep", "0"],
        [sys.executable, "-I", "-S", "-c", AGENT],
        ["unshare", "--pid", "--fork", "sleep", "infinity"],
        ["sh", "-c", PROBER],
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
