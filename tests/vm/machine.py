"""A machine that boots: QEMU, a disk of its own over the image, and a port that runs commands in it."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.vm.image import Image

BOOT_SECONDS = 240.0
"""Until it answers, under software emulation on a busy core."""

COMMAND_SECONDS = 300.0
"""Beside other work on this computer a command takes as long; what was waited for costs no more than it takes."""

OFF_SECONDS = 240.0

ACCELERATOR = os.environ.get("COSTGUARD_VM_ACCELERATOR", "tcg")
"""`tcg` is software emulation, which works everywhere; `kvm` is ten times as fast where it works."""


class Ended(NamedTuple):
    """How a command in the machine ended; what it wrote to both of its outputs."""

    code: int
    output: str


class Machine:
    """Starts from an image; what it writes stays in a folder, over several boots."""

    def __init__(self, image: Image, folder: Path, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self._image, self._options = image, options
        self.date: datetime | None = None  # of its own clock, at the next boot; None: the real one
        self._disk = folder / "disk.qcow2"
        self._process: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None
        self._kept = b""
        self._read = 0
        self.boots = 0
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-b", image.disk, "-F", "raw", self._disk], check=True
        )

    def __enter__(self) -> Self:
        try:
            return self.boot()
        except BaseException:  # a test that is interrupted leaves no machine behind
            self.unplug()
            raise

    def __exit__(self, *_: object) -> None:
        self.unplug()

    @property
    def console(self) -> str:
        """What the kernel and systemd wrote to the first serial line in this boot."""
        return (self.folder / f"console-{self.boots}").read_text("utf-8", "replace")

    @property
    def terminal(self) -> str:
        """What was written to the second serial line in this boot."""
        return (self.folder / f"terminal-{self.boots}").read_text("utf-8", "replace")

    def boot(self) -> Self:
        """Switch it on, and wait until it runs commands and all its services were started."""
        self.boots += 1
        port = self.folder / "port"
        date = ["-rtc", f"base={self.date:%Y-%m-%dT%H:%M:%S}"] if self.date else []
        port.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-accel", ACCELERATOR,
                "-cpu", "max", "-smp", "1", "-m", "640", "-kernel", self._image.kernel, "-initrd", self._image.initrd,
                "-append", "root=/dev/vda rw console=ttyS0 panic=-1 net.ifnames=0",
                "-drive", f"if=virtio,file={self._disk},format=qcow2,cache=unsafe",
                "-serial", f"file:{self.folder}/console-{self.boots}", "-serial", f"file:{self.folder}/terminal-{self.boots}",
                "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
                "-chardev", f"socket,id=port,path={port},server=on,wait=off", "-device", "virtserialport,chardev=port,name=test",
                "-qmp", f"unix:{self.folder}/qmp,server=on,wait=off", *date, *self._options,
            ],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self._kept, self._read = b"", 0
        end = time.monotonic() + BOOT_SECONDS
        self._port = self._connected(port, end)
        self.run("systemctl", "is-system-running", "--wait", check=False, seconds=BOOT_SECONDS)
        return self

    def run(
        self, *argv: str, user: str = "", text: str | None = None, check: bool = True, seconds: float = COMMAND_SECONDS
    ) -> Ended:
        """Run a program in it, as root or as a user, and wait for its end."""
        assert self._port is not None, "it is off"
        words = ["runuser", "-u", user, "--", *argv] if user else argv
        self._port.settimeout(seconds + BOOT_SECONDS)
        self._port.sendall(json.dumps({"argv": words, "input": text, "seconds": seconds}).encode() + b"\n")
        while b"\n" not in self._kept:
            data = self._port.recv(65536)
            assert data, f"the machine ended while {argv} ran in it:\n{self.console[-3000:]}"
            self._kept += data
        line, _, self._kept = self._kept.partition(b"\n")
        ended = Ended(**json.loads(line))
        assert ended.code == 0 or not check, f"{argv}: {ended.code}\n{ended.output}"
        return ended

    def shell(self, script: str, *, user: str = "", check: bool = True, seconds: float = COMMAND_SECONDS) -> str:
        """Run a script in it; what it wrote."""
        return self.run("bash", "-c", script, user=user, check=check, seconds=seconds).output

    def _begin(self, *argv: str) -> None:
        """Send a command that nobody waits for, because the machine ends."""
        assert self._port is not None
        self._port.sendall(json.dumps({"argv": argv, "seconds": COMMAND_SECONDS}).encode() + b"\n")

    def put(self, path: str, text: str, mode: str = "644") -> None:
        """Replace a file in it, at once."""
        script = 'mkdir -p "${1%/*}" && cat > "$1.new" && chmod "$2" "$1.new" && mv "$1.new" "$1"'
        self.run("sh", "-c", script, "sh", path, mode, text=text)

    def status(self, user: str = "") -> dict[str, Any]:
        """What `costguard status --json` says in it; empty where nobody answers."""
        ended = self.run("costguard", "status", "--json", user=user, check=False)
        try:
            found = json.loads(ended.output)
        except ValueError:
            return {}
        assert isinstance(found, dict)
        return found

    def until(self, holds: Callable[[], object], seconds: float = COMMAND_SECONDS) -> None:
        """Wait until something holds in it."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, self.shell("journalctl -b --no-pager | tail -80", check=False)
            time.sleep(0.3)

    def wait(self, words: str, seconds: float = COMMAND_SECONDS) -> None:
        """Wait until its console says so, after what was waited for last: that costs the machine nothing."""
        end = time.monotonic() + seconds
        while (found := self.console.find(words, self._read)) < 0:
            assert time.monotonic() < end, f"{words!r} is not in:\n{self.console[self._read :]}"
            time.sleep(0.1)
        self._read = found + len(words)

    def off(self, seconds: float = OFF_SECONDS) -> None:
        """Wait until it has switched itself off."""
        assert self._process is not None
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.shell("journalctl -b --no-pager | tail -60", check=False)) from None
        assert code == 0, code
        self.unplug()

    def shut_down(self) -> None:
        """Switch it off in order."""
        self._begin("systemctl", "poweroff")
        self.off()

    def press_power(self) -> None:
        """Press its power button, as a cloud does that stops a machine: its system then shuts down."""
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(str(self.folder / "qmp"))
            with made.makefile("rw") as lines:
                lines.readline()  # its greeting
                for command in ("qmp_capabilities", "system_powerdown"):
                    print(json.dumps({"execute": command}), file=lines, flush=True)
                    while "event" in (said := json.loads(lines.readline())):
                        pass  # told to whoever listens
                    assert "return" in said, said

    def unplug(self) -> None:
        """End it at once, whatever it does."""
        if self._port is not None:
            self._port.close()
            self._port = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _connected(self, path: Path, end: float) -> socket.socket:
        while True:
            assert self._process is not None
            assert self._process.poll() is None, "QEMU did not start"
            made = socket.socket(socket.AF_UNIX)
            try:
                made.connect(str(path))
            except OSError:
                made.close()
                assert time.monotonic() < end
                time.sleep(0.05)
            else:
                return made
