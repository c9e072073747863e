"""Record the story of senses again: `sudo python -m tests.recordings.record_story FILE`. It takes eight minutes.

All of it is real but the GPU and the notebook server, which are the stand-ins: a shell on a pseudo terminal in which somebody types, a
download from another host (a network of its own, over a pair of interfaces), a kernel that is busy without a word. The processes,
the network and the users are the story's own, so a recording tells nothing of the machine that it was made on.
"""

import os
import pty
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from costguard.testing.nvml import Script, build, write_sysfs
from tests.unit.readers.host.notebooks import OTHER, Notebook

INTERVAL = 2.0
LENGTH = 480.0
WORKS = ((0.0, 40.0), (150.0, 190.0), (350.0, 380.0), (440.0, 470.0))
"""When the GPU works, in seconds from the beginning."""

TYPES = (50.0, 110.0)
DOWNLOADS = (200.0, 260.0)
COMPUTES = (385.0, 460.0)
"""When somebody types on a terminal, a download runs, a cell runs."""

SENSES = {
    "COSTGUARD_SENSES__TERMINALS__QUIET_FOR": "60s", "COSTGUARD_SENSES__TRAFFIC__QUIET_FOR": "20s",
    "COSTGUARD_SENSES__JUPYTER__QUIET_FOR": "20s", "COSTGUARD_SENSES__ENABLED": "true",
    "COSTGUARD_SENSES__TRAFFIC__DISK": "1GB/s",
}  # fmt: skip
"""Shorter than people want it, so that eight minutes hold a story. The disks are the machine's, so they are left out."""
OWN_WORLD = ("unshare", "--net", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child")
KEY_EVERY, PORT, CHUNK = 4.0, 9000, 100_000


class Clock:
    """Seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def until(self, at: float) -> None:
        time.sleep(max(0.0, at - self.now))

    @property
    def now(self) -> float:
        return time.monotonic() - self._began


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def serve() -> None:
    """The other host: sends a megabyte a second to whoever asks."""
    door = socket.create_server(("10.77.0.2", PORT))
    while True:
        line, _ = door.accept()
        try:
            while True:
                line.sendall(bytes(CHUNK))
                time.sleep(0.1)
        except OSError:
            line.close()


def other_host() -> None:
    """Begin it, in a network of its own; it ends with this one."""
    ip("link", "set", "lo", "up")
    host = subprocess.Popen(["unshare", "--net", sys.executable, "-m", __spec__.name, "serve"], stdin=subprocess.PIPE)
    time.sleep(1.0)
    ip("link", "add", "eth0", "type", "veth", "peer", "name", "far")
    ip("link", "set", "far", "netns", str(host.pid))
    ip("address", "add", "10.77.0.1/24", "dev", "eth0")
    ip("link", "set", "eth0", "up")


def types(clock: Clock) -> None:
    """Ann opens a shell, types, and leaves it open."""
    shell, line = pty.fork()
    if shell == 0:
        os.fchown(0, OTHER, -1)
        os.setresgid(OTHER, OTHER, OTHER)
        os.setresuid(OTHER, OTHER, OTHER)
        os.execve("/bin/bash", ["bash", "--norc"], {"PATH": "/usr/bin:/bin", "TERM": "dumb"})
    while clock.now < LENGTH:
        if TYPES[0] <= clock.now < TYPES[1]:
            os.write(line, b"#")
        if select.select([line], [], [], KEY_EVERY)[0]:
            os.read(line, 4096)
            time.sleep(KEY_EVERY)


def downloads(clock: Clock) -> None:
    clock.until(DOWNLOADS[0])
    with socket.create_connection(("10.77.0.2", PORT)) as line:
        while clock.now < DOWNLOADS[1]:
            line.recv(CHUNK)


def computes(clock: Clock, folder: Path) -> None:
    """A cell runs that says nothing; the notebook stays open after it."""
    (folder / "proc").mkdir()
    clock.until(COMPUTES[0])
    notebook = Notebook(folder / "proc", folder / "runtime", None)
    notebook.kernel(state="busy")
    clock.until(COMPUTES[1])
    notebook.end()


def gpu(clock: Clock, script: Script) -> None:
    for begin, end in WORKS:
        clock.until(begin)
        script.set(util=93, power=420)
        clock.until(end)
        script.set(util=0, power=60)


def story(out: str) -> None:
    """In a world of its own."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\nann:x:{OTHER}:{OTHER}::/home/ann:/bin/sh\n")
        subprocess.run(["mount", "--bind", folder / "passwd", "/etc/passwd"], check=True)
        sysfs, library = write_sysfs(folder / "sys", ["0000:01:00.0"]), build(folder / "lib")
        script = Script(folder / "gpus", gpus=1, util=93, power=420)
        subprocess.Popen(["sleep", "infinity"])
        other_host()
        command = [sys.executable, "-m", "costguard", "record", "--out", out, "--interval", f"{INTERVAL:g}s"]
        command += ["--duration", f"{LENGTH:g}s", "--sysfs", str(sysfs)]
        clock = Clock()
        for part in (
            lambda: gpu(clock, script),
            lambda: types(clock),
            lambda: downloads(clock),
            lambda: computes(clock, folder),
        ):
            threading.Thread(target=part, daemon=True).start()
        subprocess.run(command, check=True, env={**os.environ, **SENSES, **script.environment(library)})


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        time.sleep(2.0)
        ip("address", "add", "10.77.0.2/24", "dev", "far")
        ip("link", "set", "far", "up")
        serve()
    elif sys.argv[2:] == ["here"]:
        story(sys.argv[1])
    else:
        sys.exit(
            subprocess.run(
                [*OWN_WORLD, sys.executable, "-m", __spec__.name, *sys.argv[1:], "here"], check=False
            ).returncode
        )
