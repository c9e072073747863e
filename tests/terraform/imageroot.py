"""A root of its own for what bakes an image: this machine's programs, empty folders for what they write, no network.

It is entered by `unshare` in a user namespace, so nothing of this machine can be changed.
"""

import json
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

ENTER = """\
set -e
root=$1; shift
for name in bin sbin lib lib64 usr; do
  if [ -L /$name ]; then ln -sfn "$(readlink /$name)" "$root/$name"
  elif [ -d /$name ]; then mkdir -p "$root/$name"; mount --rbind "/$name" "$root/$name"; fi
done
mount --bind "$root/local" "$root/usr/local"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
for place in "$PYTHON" "$LIBRARY"; do
  case $place in /usr | /usr/*) ;; *) mkdir -p "$root$place"; mount --rbind "$place" "$root$place" ;; esac
done
exec chroot "$root" /bin/bash -c "$1"
"""

SYSTEMCTL = """\
#!/bin/bash
# Stands for systemd: starts what the unit says, under the unit's name.
echo "$@" >>/systemctl.log
case $1 in
  start | restart)
    words=$(sed -n 's/^Environment=//p' /etc/systemd/system/costguard.service.d/*.conf)
    env $words $(sed -n 's/^ExecStart=//p' /etc/systemd/system/costguard.service) >>/guard.log 2>&1 &
    guard=$!
    echo $guard >/run/guard
    mount --bind /cgroup /proc/$guard/cgroup
    for _ in $(seq 300); do
      costguard status >/dev/null 2>&1 && exit 0
      kill -0 $guard 2>/dev/null || exit 1
      read -rt 0.1 <> <(:) || :
    done
    exit 1 ;;
  stop)
    [ "$2" = costguard.service ] || exit 0
    kill $(cat /run/guard)
    while kill -0 $(cat /run/guard) 2>/dev/null; do read -rt 0.1 <> <(:) || :; done ;;
esac
"""

PYTHON = """\
#!/bin/bash
# As Debian and Ubuntu have it: an environment gets no pip.
case "$*" in *ensurepip*) exit 1 ;; *"-m venv "*--without-pip*) ;; *"-m venv "*) exit 1 ;; esac
exec {base} "$@"
"""

SAYS = '#!/bin/bash\necho "{name} $@" >>/others.log\n'
"""Stands for a program of the image."""


class ImageRoot:
    """The root folder of a machine that becomes an image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("etc/ssh", "opt", "var/lib/dbus", "run", "tmp", "dev", "proc", "sys", "local/bin", "root"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.write("cgroup", "0::/system.slice/costguard.service\n")
        self.program("systemctl", SYSTEMCTL)
        self.program("journalctl", SAYS.format(name="journalctl"))
        # The newest that provision.sh asks for: the one whose libraries are at hand.
        base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
        self.program("python3.13", PYTHON.format(base=base))
        for name in ("etc/passwd", "etc/group"):
            self.write(name, "root:x:0:\n" if name == "etc/group" else "root:x:0:0:root:/root:/bin/bash\n")

    def write(self, path: str, text: str) -> Path:
        """A file of the machine."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def program(self, name: str, text: str) -> None:
        """One in /usr/local/bin."""
        self.write(f"local/bin/{name}", text).chmod(0o755)

    def text(self, path: str) -> str:
        """A file of the machine; empty where it is not."""
        file = self.folder / path
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """A script of bash, as root of this root."""
        libraries = {"PYTHON": sys.base_prefix, "LIBRARY": str(Path(sys.executable).resolve().parents[1])}
        command = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        return subprocess.run(
            [*command, "bash", "-c", ENTER, "enter", str(self.folder), script],
            env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **libraries},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def json(self, command: str) -> Mapping[str, Any]:
        """What a command answers."""
        done = self.run(command)
        answer: Mapping[str, Any] = json.loads(done.stdout)
        return answer


def can_enter() -> bool:
    """Whether this machine lets its user make such a root, in which the programs are root's."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "test", "-O", "/usr/bin"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def pack(names: Iterable[str], folder: Path) -> None:
    """Wheels of libraries as they are installed here: no index is asked."""
    folder.mkdir()
    for name in names:
        found = distribution(name)
        about = (found.read_text("WHEEL") or "").splitlines()
        tag = [line.removeprefix("Tag: ") for line in about if line.startswith("Tag: ")][-1]  # py2 stands before py3
        files = [file for file in found.files or () if ".." not in file.parts and "__pycache__" not in file.parts]
        (info,) = {file.parts[0] for file in files if file.parts[0].endswith(".dist-info")}
        rows = []
        with zipfile.ZipFile(folder / f"{info.removesuffix('.dist-info')}-{tag}.whl", "w") as archive:
            for file in files:
                if str(file) != f"{info}/RECORD":
                    body = Path(str(file.locate())).read_bytes()
                    archive.writestr(str(file), body)
                    digest = urlsafe_b64encode(sha256(body).digest()).rstrip(b"=").decode()
                    rows.append(f"{file},sha256={digest},{len(body)}\n")
            archive.writestr(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
