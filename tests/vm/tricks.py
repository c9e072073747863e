"""On the machine, as an ordinary user who means harm: ``tricks.py refused GUARD…``, ``plant CODE``, ``fill`` or ``flood FILE KIND…``. Written for the guest's own Python.

``refused`` tries what must not work, and prints each trick that worked. ``plant`` leaves what others might run or follow. ``fill`` takes all
room that he may write to. ``flood`` does at once and without an end what an ordinary user may; each kind writes its name into FILE once it is under way.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from glob import glob

RUNTIME, STATE, SETTINGS = "/run/costguard", "/var/lib/costguard", "/etc/costguard"
SOCKET = f"{RUNTIME}/control.sock"
OWNERS_SOCKET = f"{RUNTIME}/owner.sock"
FOLDERS = (
    RUNTIME,
    STATE,
    SETTINGS,
    "/opt/costguard/bin",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/bin",
)
Try = Callable[[], object]
LIBC = ctypes.CDLL(None, use_errno=True)
ATTACH, SEIZE = 16, 0x4206
"""Of ptrace(2)."""

MODULES = (
    "costguard",
    "costguard_aws",
    "json",
    "tomllib",
    "ssl",
    "socket",
    "sitecustomize",
    "usercustomize",
    "pynvml",
    "re",
    "apprise",
)


def refused(guards: list[int]) -> None:
    """Print what worked, one trick a line."""
    for name, attempt in {**_of_files(), **_of_processes(guards), **_of_commands()}.items():
        try:
            attempt()
        except OSError:
            continue
        print(name)
    _tell_systemd()
    with suppress(OSError):
        os.kill(-1, signal.SIGKILL)  # whatever he may, but himself


def _of_files() -> dict[str, Try]:
    tries: dict[str, Try] = {
        "the socket taken": _bind,
        "root's own socket": _knock,
        "the lock": partial(_open, f"{RUNTIME}/guard.lock", os.O_RDONLY),
    }
    for folder in FOLDERS:
        tries[f"a file in {folder}"] = partial(_open, f"{folder}/x", os.O_CREAT | os.O_WRONLY)
        tries[f"a link in {folder}"] = partial(os.symlink, "/etc/shadow", f"{folder}/l")
        tries[f"{folder} moved"] = partial(os.rename, folder, f"{folder}.gone")
    for path in [*glob(f"{RUNTIME}/*"), *glob(f"{STATE}/*"), *glob(f"{SETTINGS}/*"), "/run/standin-gpus"]:
        tries[f"{path} removed"] = partial(os.unlink, path)
        if not path.endswith(".sock"):
            tries[f"{path} written"] = partial(_open, path, os.O_WRONLY | os.O_APPEND)
    return tries


def _of_processes(guards: list[int]) -> dict[str, Try]:
    tries: dict[str, Try] = {}
    for pid in guards:
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP, signal.SIGABRT):
            tries[f"{number.name} to {pid}"] = partial(os.kill, pid, number)
        tries |= {
            f"ptrace of {pid}": partial(_ptrace, ATTACH, pid),
            f"seizing {pid}": partial(_ptrace, SEIZE, pid),
            f"the memory of {pid}": partial(_open, f"/proc/{pid}/mem", os.O_RDONLY),
            f"the environment of {pid}": partial(_open, f"/proc/{pid}/environ", os.O_RDONLY),
            f"the files of {pid}": partial(os.listdir, f"/proc/{pid}/fd"),
            f"{pid} first to go": partial(_open, f"/proc/{pid}/oom_score_adj", os.O_WRONLY),
            f"{pid} last to run": partial(os.setpriority, os.PRIO_PROCESS, pid, 19),
            f"{pid} on no processor": partial(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0)),
            f"{pid} without files": partial(resource.prlimit, pid, resource.RLIMIT_NOFILE, (4, 4)),
        }
    return tries


def _of_commands() -> dict[str, Try]:
    commands = (
        "costguard stop --yes", "costguard detach", "costguard attach", "systemctl stop costguard",
        "systemctl kill costguard", "systemctl mask --runtime costguard", "systemctl set-property costguard CPUQuota=1%",
        "systemctl poweroff", "systemd-inhibit --what=shutdown --mode=block true",
    )  # fmt: skip
    tries: dict[str, Try] = {words: partial(_run, words) for words in commands}
    return tries | {
        f"{verb} by the socket": partial(_ask, verb) for verb in ("stop", "reload", "detach", "attach", "begun")
    }


def _open(path: str, flags: int) -> None:
    os.close(os.open(path, flags))


def _bind() -> None:
    made = socket.socket(socket.AF_UNIX)
    made.bind(SOCKET)


def _knock() -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(OWNERS_SOCKET)


def _ptrace(request: int, pid: int) -> None:
    _checked(LIBC.ptrace(request, pid, None, None))


def _checked(code: int) -> None:
    if code:
        raise OSError(ctypes.get_errno(), "refused")


def _run(words: str) -> None:
    _checked(subprocess.run(words.split(), stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode)


def _ask(command: str, **more: object) -> None:
    """An answer that is neither a refusal nor a word about too many of them."""
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(SOCKET)
        made.sendall(json.dumps({"command": command, **more}).encode() + b"\n")
        answer = json.loads(made.makefile().readline())
    _checked("busy" in answer or answer.get("done") is False)


def _tell_systemd() -> None:
    """As if he were the guard. systemd takes it from nobody but the guard: the service goes on."""
    for words in ("STOPPING=1", "WATCHDOG=trigger", "MAINPID=1", "STATUS=all is well", "READY=1\nSTOPPING=1"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
            made.sendto(words.encode(), "/run/systemd/notify")


def plant(code: str) -> None:
    """Modules, settings, links and pipes, wherever he may write and somebody might look."""
    home = os.path.expanduser("~")
    for folder in (
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        home,
        f"{home}/.config/costguard",
        f"{home}/.config/costguard/config.d",
    ):
        os.makedirs(folder, exist_ok=True)
        for name in MODULES:
            _put(f"{folder}/{name}.py", code)
        for name in ("config.toml", "x.toml"):
            _put(f"{folder}/{name}", 'mode = "dry-run"\nkill_action = "end_process"\n')
        for name, target in (
            ("costguard-run", "/etc"),
            ("guard.lock", "/etc/shadow"),
            ("control.sock", "/run/systemd/notify"),
        ):
            with suppress(OSError):
                os.symlink(target, f"{folder}/{name}")
    runtime = f"{home}/.local/share/jupyter/runtime"
    os.makedirs(runtime)
    for pid in range(300, 2000):
        os.symlink("/etc/shadow", f"{runtime}/jpserver-{pid}.json")
        os.mkfifo(f"{runtime}/nbserver-{pid}.json")
    shutil.copy("/usr/bin/python3", f"{home}/jupyter-lab")
    os.chdir("/")
    if not os.fork():
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # who waits for the end of what this writes would wait for it
            os.dup2(null, number)
        kernel = [
            "python3",
            "-c",
            "import time; time.sleep(100000)",
            "ipykernel_launcher",
            "-f",
            f"{runtime}/kernel-1.json",
        ]
        os.execv(f"{home}/jupyter-lab", ["jupyter-lab", "-c", f"import subprocess; subprocess.run({kernel!r})"])


def fill() -> None:
    """Files by number, and bytes, until there is room for no more; of the disk the system keeps some bytes for root, and no files."""
    flags = os.O_CREAT | os.O_WRONLY
    files = [os.open(f"{folder}/fill", flags) for folder in ("/dev/shm", "/run/lock", "/var/tmp")]
    with suppress(OSError):
        os.mkdir("/var/tmp/files")
        for number in range(1 << 20):
            os.mknod(f"/var/tmp/files/{number}")
    for file in files:
        with suppress(OSError):
            while True:
                os.write(file, bytes(1 << 20))


UNDER_WAY = 5
"""Rounds of a flood after which it counts as one."""

SPINNERS, SLEEPERS, TERMINALS = 8, 300, 40


def flood(report: str, kinds: list[str]) -> None:
    """One process for each kind; the crowd is many."""
    floods = {"connections": _connections, "pieces": _pieces, "requests": _requests, "holds": _holds, "forks": _forks}
    for name, once in floods.items():
        if name in kinds and not os.fork():
            _again(name, once, report)
    if "crowd" in kinds:
        _crowd()
        _say("crowd", report)
    time.sleep(100000)


def _crowd() -> None:
    for _ in range(TERMINALS):
        if not os.fork():
            _deaf_terminal()
    for number in range(SPINNERS + SLEEPERS):
        if not os.fork():
            while number < SPINNERS:
                pass
            os.execv("/usr/bin/sleep", ["sleep", "100000"])


def _again(name: str, once: Try, report: str) -> None:
    rounds = 0
    while True:
        with suppress(OSError, ValueError):
            once()
        rounds += 1
        if rounds == UNDER_WAY:
            _say(name, report)


def _say(name: str, report: str) -> None:
    with open(report, "a", encoding="ascii") as file:
        file.write(name + "\n")


def _connections() -> None:
    """As many as the kernel takes, none of which says anything."""
    made = []
    try:
        for _ in range(500):
            made.append(socket.socket(socket.AF_UNIX))
            made[-1].setblocking(False)
            made[-1].connect(SOCKET)
    finally:
        for each in made:
            each.close()


def _pieces() -> None:
    """A request without an end, byte by byte; then one that is too long."""
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(SOCKET)
        for _ in range(200):
            made.send(b"{")
        made.sendall(b"x" * (1 << 20))


def _requests() -> None:
    _ask("status")


def _holds() -> None:
    with suppress(OSError):
        _ask("hold", seconds=5)
    _ask("release")


def _forks() -> None:
    if not os.fork():
        os._exit(0)
    os.wait()


def _deaf_terminal() -> None:
    """One that takes no output, which its owner asked for; he sits there, as far as anybody can see."""
    os.setsid()
    _, terminal = os.openpty()
    os.close(os.open(os.ttyname(terminal), os.O_RDWR))
    termios.tcflow(terminal, termios.TCOOFF)
    time.sleep(100000)


def _put(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    if sys.argv[1] == "plant":
        plant(sys.argv[2])
    elif sys.argv[1] == "fill":
        fill()
    elif sys.argv[1] == "flood":
        flood(sys.argv[2], sys.argv[3:])
    else:
        refused([int(word) for word in sys.argv[2:]])
