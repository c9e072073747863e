"""The disk of a small Debian with costguard from a wheel, made once for the same inputs.

Two layers, each kept outside the repository under a hash of what it is made of: the distribution (a minute), and
what is put on it (seconds; again with each other wheel). The mirror is the machine's own, as apt knows it.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from costguard.testing.nvml import build, write_sysfs

SUITES = {"bookworm": "3.11", "trixie": "3.13"}
"""Debian 12 and 13, with their Python."""

PACKAGES = (
    "linux-image-cloud-amd64", "initramfs-tools", "systemd-sysv", "dbus", "udev", "kmod", "libpam-systemd", "polkitd",
    "python3", "python3-venv", "sudo", "procps", "iproute2", "login", "passwd", "e2fsprogs", "cloud-init",
)  # fmt: skip
MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "ext4")
"""What the first file system of a start needs to find the disk."""

DISK_MIB = 1536
WHEELS_MIB = 192
ADDRESSES = ("0000:01:00.0", "0000:02:00.0")
"""Where the stand-in GPUs are on the bus."""

NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs", "tar": "tar", "cc": "gcc", "xorrisofs": "xorriso",
}  # fmt: skip
"""Programs, and the packages of Debian and Ubuntu that bring them."""

_HERE = Path(__file__).parent
_WITHOUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
_USERS = 'for name in alice bob; do chroot "$1" useradd --create-home --shell /bin/bash $name; done'
_SERVICES = 'chroot "$1" systemctl --quiet enable vm-shell.service vm-network.service'
CLOUDS = ("aws", "gcp", "azure")
_INSTALL = (
    'touch "$1/etc/cloud/cloud-init.disabled"',
    'chroot "$1" python3 -m venv /opt/costguard',
    'chroot "$1" /opt/costguard/bin/pip install --quiet --no-compile --no-index --find-links /srv/wheels "costguard-agent[{extras}]"',
    # valid whatever mmdebstrap makes of the dates: a service that may not write compiled code would compile at each start
    'chroot "$1" /opt/costguard/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/costguard/lib',
    'chroot "$1" ln -s /opt/costguard/bin/costguard /usr/local/bin/costguard',
    'rm -r "$1/srv/wheels"',
    _SERVICES,
)
_PLAIN = ('chroot "$1" dpkg --purge python3-venv python{python}-venv >/dev/null', _SERVICES)
"""As the distribution's own image for clouds: Python cannot even make an environment with pip."""

WHEELS_LABEL = "wheels"
"""By which a machine finds the disk with what pip needs."""


class MissingError(Exception):
    """What this computer has not, and without which no machine can be built or started: a program, the distribution's mirror."""


class Image(NamedTuple):
    """What a machine starts from; nobody writes to these files."""

    disk: Path
    kernel: Path
    initrd: Path
    wheels: Path

    @classmethod
    def of(cls, folder: Path, disk: str = "disk") -> Self:
        """What lies in a folder that `made` returned: ``disk`` has costguard, ``plain`` waits for user data."""
        return cls(folder / disk, folder / "kernel", folder / "initrd", folder / "wheels")

    def wheel(self, folder: Path) -> Path:
        """Costguard's own wheel, copied into a folder from the disk of wheels."""
        listed = _debugfs("ls -p /", self.wheels)
        name = next(word for word in listed.split("/") if word.startswith("costguard_agent-"))
        _debugfs(f"dump /{name} {folder / name}", self.wheels)
        return folder / name


def _debugfs(request: str, disk: Path) -> str:
    """Look into a file system that nobody has mounted."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    words = ["debugfs", "-R", request, str(disk)]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"PATH": path}).stdout


def require() -> None:
    """Raise MissingError with the names of what is missing."""
    needed = NEEDED if os.geteuid() == 0 else NEEDED | {"fakeroot": "fakeroot", "newuidmap": "uidmap"}
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = {program: package for program, package in needed.items() if not shutil.which(program, path=path)}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise MissingError(
            f"{', '.join(missing)}: not installed, so no machine can be booted; sudo apt install {packages}"
        )


def made(wheel: Path, cache: Path, suite: str, clouds: Sequence[str] = CLOUDS) -> Path:
    """The folder of the image with this wheel. One with the libraries of some clouds alone has no ``plain`` disk, and is built in half the time."""
    require()
    cache.mkdir(parents=True, exist_ok=True)
    base = cache / f"base-{_hash(suite, PACKAGES, MODULES, _WITHOUT, _mirror(suite))}"
    _once(base, lambda folder: _distribution(folder, suite))
    inputs = [path.read_bytes() for path in sorted((_HERE / "guest").iterdir()) if path.is_file()]
    made_of = (wheel.read_bytes(), clouds, _INSTALL, _PLAIN, _USERS, ADDRESSES, inputs, _standin_source())
    layer = cache / f"image-{_hash(base.name, *made_of)}"
    _once(layer, lambda folder: _with_costguard(folder, base, wheel, suite, clouds))
    _forget(cache, keep=(base, layer))
    return layer


def _hash(*inputs: object) -> str:
    return hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]


def _mirror(suite: str) -> str:
    """The sources of apt here, where they are of the same suite; else mmdebstrap's own."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    texts = [file.read_text() for file in files if file.suffix in {".list", ".sources"} and file.is_file()]
    return "\n".join(text for text in texts if suite in text and "debian.org" in text)


def _standin_source() -> str:
    return Path(sys.modules[build.__module__].__file__ or "").with_name("standin.c").read_text()


def _once(folder: Path, make: Callable[[Path], None]) -> None:
    """Make a folder that is whole or not there."""
    if folder.exists():
        return
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir()
    try:
        make(partial)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _forget(cache: Path, keep: Sequence[Path]) -> None:
    """Remove images of other wheels than the latest: each takes gigabytes."""
    for old in cache.glob("image-*"):
        if old not in keep and "." not in old.name:
            shutil.rmtree(old, ignore_errors=True)


def _distribution(folder: Path, suite: str) -> None:
    modules = "\\n".join(MODULES)
    words = [
        "mmdebstrap", "--quiet", "--format=tar", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _WITHOUT),
        '--aptopt=Acquire::Languages "none"',
        '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"',
        '--essential-hook=printf "MODULES=list\\n" > "$1/etc/initramfs-tools/conf.d/vm"',
        f'--essential-hook=printf "{modules}\\n" > "$1/etc/initramfs-tools/modules"',
        "--customize-hook=" + _USERS,
        '--customize-hook=rm -f "$1/etc/machine-id"; : > "$1/etc/machine-id"',
        suite, str(folder / "tar"),
    ]  # fmt: skip
    try:
        _call(*words)
    except AssertionError as error:
        raise MissingError(f"no {suite} could be had here: {str(error).splitlines()[-1]}") from error
    names = subprocess.run(["tar", "-tf", folder / "tar"], capture_output=True, text=True, check=True).stdout.split()
    for kind, name in (("vmlinuz-", "kernel"), ("initrd.img-", "initrd")):
        found = next(entry for entry in names if entry.startswith(f"./boot/{kind}"))
        with (folder / name).open("wb") as file:
            subprocess.run(["tar", "-xOf", folder / "tar", found], stdout=file, check=True)


def _with_costguard(folder: Path, base: Path, wheel: Path, suite: str, clouds: Sequence[str]) -> None:
    """Both disks, with costguard and without, and one with what it is installed from."""
    extras = ",".join(clouds)
    wheels, standin = folder / "files" / "wheels", folder / "standin"
    standin.mkdir()
    build(standin)
    sysfs = write_sysfs(standin / "sys", ADDRESSES)
    for name in ("class", "block"):
        (sysfs / name).symlink_to(f"/sys/{name}")
    _call(
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
        f"--python-version={SUITES[suite]}", *(f"--platform={platform}" for platform in _PLATFORMS), "--dest", str(wheels),
        f"{wheel}[{extras}]", "pip",
    )  # fmt: skip
    shutil.copy(wheel, wheels)
    hooks = [f"--customize-hook=copy-in {standin} /opt", f"--customize-hook=sync-in {_HERE}/guest /etc/systemd/system"]
    if tuple(clouds) == CLOUDS:
        plain = [step.replace("{python}", SUITES[suite]) for step in _PLAIN]
        _poured(base, folder / "plain", suite, [*hooks, *(f"--customize-hook={step}" for step in plain)])
    steps = [step.replace("{extras}", extras) for step in _INSTALL]
    hooks += [f"--customize-hook=copy-in {wheels} /srv", *(f"--customize-hook={step}" for step in steps)]
    _poured(base, folder / "disk", suite, hooks)
    _call(
        "mke2fs", "-q", "-t", "ext4", "-L", WHEELS_LABEL, "-O", "^has_journal", "-d", str(wheels), str(folder / "wheels"),
        f"{WHEELS_MIB}M",
    )  # fmt: skip
    for left in (wheels.parent, standin):
        shutil.rmtree(left)
    for name in ("kernel", "initrd"):
        (folder / name).hardlink_to(base / name)


def _poured(base: Path, disk: Path, suite: str, hooks: Sequence[str]) -> None:
    """The distribution, changed as a person would, in a file system."""
    tar, tree = disk.with_suffix(".tar"), disk.with_suffix(".tree")
    _call(
        "mmdebstrap", "--quiet", "--format=tar", "--variant=custom", "--skip=setup,update,cleanup",
        f'--setup-hook=tar -xpf {base}/tar -C "$1"', *hooks, suite, str(tar),
    )  # fmt: skip
    pour = 'mkdir "$1" && tar -xpf "$2" -C "$1" && mke2fs -q -t ext4 -L root -O ^has_journal,^metadata_csum -d "$1" "$3" "$4"M && rm -r "$1"'
    root = [] if os.geteuid() == 0 else ["fakeroot"]
    _call(*root, "sh", "-c", pour, "sh", str(tree), str(tar), str(disk), str(DISK_MIB))
    tar.unlink()


def _call(*argv: str) -> None:
    environment = os.environ | {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    ended = subprocess.run(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert ended.returncode == 0, f"{' '.join(argv)[:300]}\n{ended.stdout[-4000:]}"


def main() -> None:
    """Print the folder of the image with a wheel, after making what is missing."""
    parser = argparse.ArgumentParser(description="Build the machine that tests boot.")
    parser.add_argument("wheel", type=Path)
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "costguard-vm"
    parser.add_argument("--cache", type=Path, default=Path(os.environ.get("COSTGUARD_VM_CACHE") or default))
    parser.add_argument("--cloud", choices=CLOUDS, help="for the stories of this cloud alone, in less time")
    parser.add_argument("--suite", choices=SUITES, default="bookworm", help="of Debian")
    given = parser.parse_args()
    try:
        clouds = (given.cloud,) if given.cloud else CLOUDS
        print(made(given.wheel.resolve(), given.cache.resolve(), given.suite, clouds))
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(os.EX_UNAVAILABLE)  # 69, by which .ci/booted knows it


if __name__ == "__main__":
    main()
