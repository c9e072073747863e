"""Wheel and sdist of a tree, whose bytes depend on its files and on one date alone."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

HOOKS = ("build_sdist", "build_wheel")
"""Of the build backend that pyproject.toml names; PEP 517."""

TOOLS = Path(__file__).with_name("build.txt")
"""The backend and what it needs, by version and checksum."""


def build(source: Path, out: Path, epoch: int, python: str = sys.executable) -> None:
    """Write both into a folder. ``python`` has the backend; nothing of the caller's environment counts."""
    surroundings = {
        "PATH": os.environ.get("PATH", os.defpath), "SOURCE_DATE_EPOCH": str(epoch), "TZ": "UTC", "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    for hook in HOOKS:
        call = f"import sys, hatchling.build as backend; backend.{hook}(sys.argv[1])"
        subprocess.run(
            [python, "-I", "-c", call, str(out.absolute())], cwd=source, env=surroundings, umask=0o022, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip


def locked(folder: Path, versions: Path) -> str:
    """The Python of a new environment with what a lock names, and nothing else: what else is installed here counts for nothing."""
    python = folder / "bin/python"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-compile"]
    subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", str(versions)], check=True)
    return str(python)


def export(repository: Path, folder: Path) -> int:
    """The committed tree into a folder; the date of the commit. Raises SystemExit where something is not committed."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=True).stdout

    if changed := git("status", "--porcelain").decode():
        raise SystemExit(
            f"error: a release is made of a commit, and this is in none:\n{changed}hint: commit or stash it"
        )
    with tarfile.open(fileobj=io.BytesIO(git("archive", "HEAD"))) as tree:
        tree.extractall(folder, filter="data")
    return int(git("log", "-1", "--format=%ct"))
