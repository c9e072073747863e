"""The lock: every library that costguard may use, in the versions that its tests ran with, and the checksums of their wheels.

`python -m release.lock` writes it anew from the environment that it runs in, and asks the index for the checksums.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = Path(__file__).with_name("lock.txt")
TOOLS = Path(__file__).with_name("build.txt")
PIP = Path(__file__).with_name("pip.txt")
PYTHONS = ("3.11", "3.12", "3.13")
UNLOCKED = ("stress",)
"""Extras with gigabytes of a library that whoever wants it has already."""
MACHINES = ("x86_64", "aarch64")
GLIBC = ("manylinux_2_17", "manylinux2014", "manylinux_2_26", "manylinux_2_27", "manylinux_2_28")
"""Wheels that run on Ubuntu 22.04 and 24.04, Debian 12 and Amazon Linux 2023."""

HEAD = """\
# {what}, written by `make lock`.
# pip install --require-hashes -r THIS FILE
"""

Hashes = dict[str, set[str]]
"""By ``name==version``."""


def read(path: Path = LOCK) -> dict[str, tuple[str, list[str]]]:
    """Version and SHA-256 sums by canonical name."""
    found = {}
    for entry in re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").replace("\\\n", "")):
        if match := re.match(r"([\w.-]+)==(\S+)", entry):
            found[match[1]] = (match[2], re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return found


def declared(extras: Iterable[str] = ()) -> list[Requirement]:
    """What pyproject.toml asks for, with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = [one for extra in extras for one in project["optional-dependencies"][extra]]
    return [Requirement(one) for one in (*project["dependencies"], *optional)]


def all_extras() -> list[str]:
    """Each extra, but not the one that is all of them, nor what no service needs and no test has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(set(project["optional-dependencies"]) - {"all", *UNLOCKED})


def graph(asked: Iterable[Requirement]) -> dict[str, set[str]]:
    """Each library that these need in turn, as installed here for Linux, and what it needs itself, by canonical names."""
    found: dict[str, set[str]] = {}
    todo = [(one.name, frozenset(one.extras)) for one in asked]
    done: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in done:
            continue
        done.add((name, extras))
        needs = [one for one in map(Requirement, _requires(name)) if _applies(one, extras)]
        found.setdefault(canonicalize_name(name), set()).update(canonicalize_name(one.name) for one in needs)
        todo += [(one.name, frozenset(one.extras)) for one in needs]
    return found


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        raise SystemExit(f"error: {name} is not installed here\nhint: pip install --require-hashes -r {LOCK}") from None


def _applies(one: Requirement, extras: frozenset[str]) -> bool:
    return one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras | {""})


def hashes(pins: Iterable[str]) -> Hashes:
    """The checksums of the wheels for every Python and machine; those that are for all of them are asked for once."""
    found: Hashes = {pin: set() for pin in pins}
    left = list(found)
    for python in PYTHONS:
        for machine in MACHINES:
            if not left:
                return found
            platforms = [part for one in GLIBC for part in ("--platform", f"{one}_{machine}")]
            for item in _asked(left, ["--python-version", python, *platforms]):
                about, archive = item["metadata"], item["download_info"]
                pin = f"{canonicalize_name(about['name'])}=={about['version']}"
                found[pin].add(archive["archive_info"]["hashes"]["sha256"])
                if archive["url"].endswith("-none-any.whl"):
                    left.remove(pin)
    return found


def _asked(pins: list[str], words: list[str]) -> list[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        where = ["--only-binary=:all:", "--target", folder, "--report", str(report)]
        subprocess.run([*pip, *where, *words, *pins], check=True)
        answer: list[Mapping[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
        return answer


def write(path: Path, what: str, found: Hashes) -> None:
    """Sorted, one library with its checksums after the other."""
    entries = [
        " \\\n".join([pin, *(f"    --hash=sha256:{one}" for one in sorted(found[pin]))])
        for pin in sorted(found, key=_name)
    ]
    path.write_text(HEAD.format(what=what) + "\n".join(entries) + "\n", encoding="utf-8")


def _name(pin: str) -> str:
    return pin.partition("==")[0]


def pinned(names: Iterable[str]) -> list[str]:
    """As they are installed here."""
    return [f"{name}=={version(name)}" for name in sorted(names)]


def main() -> None:
    """Write all of them."""
    write(LOCK, "What the tests of costguard ran with", hashes(pinned(graph(declared(all_extras())))))
    write(PIP, "What installs costguard where the machine's Python has no pip", hashes(pinned(["pip"])))
    write(TOOLS, "What builds a release of costguard", hashes(pinned(graph([Requirement("hatchling")]))))


if __name__ == "__main__":
    main()
