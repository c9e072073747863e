"""Record what /proc shows of more things that need no machine: `sudo python -m tests.recordings.record_days WHAT FILE [FOLDER]`.

``rotation``: logrotate packs three logs of 60 MB. ``upgrade``: unattended-upgrades takes packages from another host and
unpacks them, as it does over night; FOLDER is a Debian with it, made with mmdebstrap, and the packages are some of its own with a
higher version. ``notebook``: a Jupyter server with an idle kernel and an open tab, whose websocket has its pings; FOLDER is a virtual
environment with jupyter_server and ipykernel. ``monitor``: programs that hold a GPU's device and ask it, as nvidia-smi does.

In a world of its own, so that the files tell nothing of the machine that they were made on. Nor do the disks' counters: they are the
sum of what the recorded processes have read and written.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.recordings.record_proc import EVERY, FOLDER, KNOWN, seen, text
from tests.recordings.record_story import OWN_WORLD, ip

PACKAGES = ("tzdata", "perl-base", "libc-bin", "coreutils", "bash")
MIRROR = "10.77.0.2"
REST = 6  # looks before what is recorded begins
SAMPLE_SECONDS = 0.1
PAGE = 4096


class Disks:
    """What the processes of this world have read from disks and written to them, those that have ended too."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        self.read = self.written = 0
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            now = {pid: self._of(pid) for pid in filter(str.isdigit, os.listdir("/proc"))}
            for pid, (read, written) in now.items():
                before = self._last.get(pid, (0, 0))
                self.read += max(0, read - before[0])
                self.written += max(0, written - before[1])
            self._last = now
            time.sleep(SAMPLE_SECONDS)

    @staticmethod
    def _of(pid: str) -> tuple[int, int]:
        rows = dict(row.split(": ") for row in text(f"/proc/{pid}/io").splitlines())
        return int(rows.get("read_bytes", 0)), int(rows.get("write_bytes", 0))

    @property
    def table(self) -> str:
        """As /proc/vmstat says it."""
        return f"x 1\nnr_dirtied {self.written // PAGE}\npgpgin {self.read >> 10}\npgpgout {self.written >> 10}\n"


def quietly(*words: object, **more: object) -> "subprocess.Popen[bytes]":
    """A process whose words nobody reads."""
    none = subprocess.DEVNULL
    return subprocess.Popen([str(word) for word in words], stdin=none, stdout=none, stderr=none, **more)  # type: ignore[call-overload,no-any-return]  # what Popen takes


def rotation(folder: Path, _given: str) -> Callable[[int], None]:
    """Three logs of 60 MB, packed at once, as a program of root's cron."""
    logs = [folder / f"service{number}.log" for number in range(3)]
    rules = "weekly\nrotate 4\ncompress\ncreate\n"
    for log in logs:
        log.write_text("".join(f"{line} a line of a log, with {line * 7919 % 100003}\n" for line in range(1_500_000)))
    (folder / "rules").write_text("".join(f"{log} {{\n{rules}}}\n" for log in logs))

    def at(look: int) -> None:
        if look == REST:
            quietly("sh", "-c", f"sleep 1; logrotate --force --state {folder}/state {folder}/rules; sleep 1")

    return at


def monitor(folder: Path, _given: str) -> Callable[[int], None]:
    """The devices are those of /dev/null; a program by a known name, and one whose name says nothing."""
    (folder / "dev").mkdir()
    for name in ("nvidiactl", "nvidia0", "nvidia1"):
        subprocess.run(["mknod", folder / "dev" / name, "c", "1", "3"], check=True)
    shutil.copy("/bin/sleep", folder / "nvidia-smi")
    opened = f"exec 5<{folder}/dev/nvidiactl 6<{folder}/dev/nvidia0 7<{folder}/dev/nvidia1"
    quietly("bash", "-c", f"{opened}; exec {folder}/nvidia-smi infinity")
    quietly("bash", "-c", f"{opened}; while :; do read -t 1 <> <(:); for i in {{1..2000}}; do :; done; done")
    return lambda _look: None


TAB = """\
import json, sys, time, urllib.request, websocket
base, folder = "127.0.0.1:8888", sys.argv[1]
ask = lambda path, data=None: json.load(urllib.request.urlopen(urllib.request.Request(f"http://{base}{path}?token=t", data), timeout=60))
for _ in range(60):
    try:
        kernel = ask("/api/kernels", b"{}")
        break
    except OSError:
        time.sleep(1)
line = websocket.create_connection(f"ws://{base}/api/kernels/{kernel['id']}/channels?token=t")
header = {"msg_id": "1", "msg_type": "execute_request", "username": "", "session": "1", "date": "", "version": "5.3"}
content = {"code": "1 + 1", "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
line.send(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}))
while True:
    line.recv()
"""


def notebook(folder: Path, given: str) -> Callable[[int], None]:
    """The tab is a client that answers the server's pings; one cell was run, long ago."""
    ip("link", "set", "lo", "up")
    (folder / "tab.py").write_text(TAB)
    python, home = f"{given}/bin/python", {"HOME": str(folder), "PATH": f"{given}/bin:/usr/bin:/bin"}
    options = (
        "--ServerApp.token=t",
        "--port=8888",
        "--allow-root",
        "--no-browser",
        "--ServerApp.websocket_ping_interval=10000",
    )
    quietly(python, "-m", "jupyter_server", *options, env=home, cwd=folder)
    quietly(python, "-I", folder / "tab.py", folder)
    time.sleep(40.0)
    return lambda _look: None


def upgrade(folder: Path, given: str) -> Callable[[int], None]:
    """The packages come over a network of its own from another host."""
    root = Path(given)
    mirror = folder / "mirror"
    mirror.mkdir()
    for name in PACKAGES:
        _newer(root, mirror, name)
    packages = subprocess.run(["dpkg-scanpackages", "."], cwd=mirror, capture_output=True, text=True, check=True).stdout
    (mirror / "Packages").write_text(packages)
    digest = hashlib.sha256(packages.encode()).hexdigest()
    head = f"Origin: Debian\nSuite: stable\nCodename: bookworm\nDate: {time.strftime('%a, %d %b %Y %H:%M:%S UTC', time.gmtime())}\n"
    (mirror / "Release").write_text(f"{head}SHA256:\n {digest} {len(packages)} Packages\n")
    far = quietly(
        "unshare",
        "--net",
        "sh",
        "-c",
        f"sleep 2; ip link set far up; ip address add {MIRROR}/24 dev far; exec {sys.executable} -m http.server 80",
        cwd=mirror,
    )
    time.sleep(1.0)
    ip("link", "set", "lo", "up")
    ip("link", "add", "eth0", "type", "veth", "peer", "name", "far")
    ip("link", "set", "far", "netns", str(far.pid))
    ip("address", "add", "10.77.0.1/24", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] http://{MIRROR}/ ./\n")
    (root / "etc/apt/apt.conf.d/99all").write_text(
        'Unattended-Upgrade::Origins-Pattern { "origin=*"; };\nAPT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n'
        'Acquire::http::Dl-Limit "1500";\nDpkg::Options { "--force-confold"; };\n'
    )  # a line of 12 Mbit/s

    def at(look: int) -> None:
        if look == REST:
            env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8"}
            script = "/usr/lib/apt/apt.systemd.daily update; /usr/lib/apt/apt.systemd.daily install"
            quietly("chroot", root, "sh", "-c", script, env=env)

    return at


def _newer(root: Path, mirror: Path, name: str) -> None:
    """The package as it is installed there, with a higher version."""
    made = mirror / f"{name}-tree"
    fields = subprocess.run(
        ["chroot", root, "dpkg-query", "--status", name], capture_output=True, text=True, check=True
    ).stdout
    wanted = [line for line in fields.splitlines() if not line.startswith(("Status:", "Conffiles:", " /"))]
    (made / "DEBIAN").mkdir(parents=True)
    lines = [f"{line}+1" if line.startswith("Version:") else line for line in wanted]
    (made / "DEBIAN" / "control").write_text("\n".join([*lines, ""]))
    files = subprocess.run(
        ["chroot", root, "dpkg-query", "--listfiles", name], capture_output=True, text=True, check=True
    ).stdout
    for file in files.split("\n"):
        source, target = root / file.lstrip("/"), made / file.lstrip("/")
        if file and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", made, mirror / f"{name}.deb"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(made)


DAYS = {"rotation": (rotation, 14), "monitor": (monitor, 12), "notebook": (notebook, 18), "upgrade": (upgrade, 18)}
"""What is begun, and how many looks are recorded."""


def record(what: str, out: str, given: str) -> None:
    """In a world of its own."""
    folder = Path(FOLDER)
    folder.mkdir()
    try:
        begin, count = DAYS[what]
        at = begin(folder, given)
        disks = Disks()
        time.sleep(2.0)
        looks: list[dict[str, str | None]] = []
        before: dict[str, str] = {}
        for look in range(count):
            at(look)
            now = {path: plain(words, given) for path, words in (seen() | {"vmstat": disks.table}).items()}
            changed: dict[str, str | None] = {path: words for path, words in now.items() if before.get(path) != words}
            looks.append(changed | dict.fromkeys(before.keys() - now.keys()))
            before = now
            time.sleep(EVERY)
        made = {"every": EVERY, "ticks": os.sysconf("SC_CLK_TCK"), "rest": REST, "looks": looks}
        Path(out).write_text(json.dumps(made, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    finally:
        shutil.rmtree(folder)


def plain(words: str, given: str) -> str:
    """Without where this was recorded; a device's stand-in is the device."""
    words = words.replace("/srv/recorded/dev/", "/dev/")
    if given:
        words = words.replace(given, "/opt/recorded")
    return words if not words.startswith("->/") or words.startswith((*KNOWN, "->/opt/")) else "->/var/log/it"


if __name__ == "__main__":
    if sys.argv[-1] == "here":
        record(sys.argv[1], sys.argv[2], sys.argv[3])
    else:
        words = [*sys.argv[1:], ""][:3]
        sys.exit(
            subprocess.run([*OWN_WORLD, sys.executable, "-m", __spec__.name, *words, "here"], check=False).returncode
        )
