"""A release: the same bytes for the same commit, whoever makes it, and a list of what is inside that is true."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release import lock
from release.__main__ import collect
from release.build import build, export
from release.sbom import sbom

ROOT = Path(__file__).parents[2]
EPOCH = 1_795_402_137
NOT_CARRIED = shutil.ignore_patterns(".*", "__pycache__", "dist", "build", "tests", "bench")


def tree(place: Path, umask: int) -> Path:
    """A copy of the checkout, as somebody with this umask has it."""
    shutil.copytree(ROOT, place, ignore=NOT_CARRIED)
    for path in place.rglob("*"):
        path.chmod(path.stat().st_mode & ~umask)
    return place


@pytest.fixture
def umask() -> Iterator[int]:
    """The process's own, put back afterwards."""
    before = os.umask(0o077)
    yield before
    os.umask(before)


@pytest.mark.thorough
def test_twice_gives_the_same_bytes(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another folder, with other rights, under another zone, language and date of the caller, later."""
    made = []
    for name, mask, zone, date in (("one", 0o077, "Asia/Kathmandu", "1"), ("a second place", 0o002, "America/St_Johns", "2000000000")):  # fmt: skip
        os.umask(mask)
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", date)
        monkeypatch.setenv("LC_ALL", "C")
        out = tmp_path / name / "out"
        out.mkdir(parents=True)
        source = tree(tmp_path / name / "tree", mask)
        for file in source.rglob("*.py"):
            os.utime(file, (int(date), int(date)))
        build(source, out, EPOCH)
        (wheel,) = out.glob("*.whl")
        (out / "sbom.json").write_text(sbom(wheel, EPOCH, lock_of_here(tmp_path / f"{name}.lock")))
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    first, second = made
    assert len(first) == 3
    (sdist,) = (tmp_path / "one/out").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    (tmp_path / "again").mkdir()
    build(source, tmp_path / "again", EPOCH)
    (wheel,) = (tmp_path / "again").glob("*.whl")
    assert wheel.read_bytes() == first[wheel.name], "the sdist has all that the wheel is made of"
    assert first == second


@pytest.mark.thorough
def test_another_date_is_another_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the commit counts: else the test above would prove nothing of it."""
    source = tree(tmp_path / "tree", 0)
    monkeypatch.chdir(tmp_path)
    for epoch in (EPOCH, EPOCH + 86400):
        Path(str(epoch)).mkdir()
        build(source, Path(str(epoch)), epoch)  # beside whoever asks, not in the tree
    first, second = (next((tmp_path / str(epoch)).glob("*.whl")).read_bytes() for epoch in (EPOCH, EPOCH + 86400))
    assert first != second


@pytest.mark.thorough
def test_what_is_installed_where_it_is_made_counts_for_nothing(tmp_path: Path) -> None:
    """The list is made by a Python that has what the lock names: an index that has newer libraries today stops no release."""
    libraries = tmp_path / "python"
    libraries.write_text('#!/bin/sh\necho "$PWD" "$@"\n')
    libraries.chmod(0o755)
    source, out = tree(tmp_path / "tree", 0), tmp_path / "out"
    collect(source, out, EPOCH, sys.executable, str(libraries))
    (wheel,), (listed,) = out.glob("*.whl"), out.glob("*.cdx.json")
    assert listed.read_text() == f"{source} -m release.sbom {wheel} {EPOCH}\n"
    names = {line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    assert names == {path.name for path in out.iterdir()} - {"SHA256SUMS"}


def test_the_lock_has_every_library_and_every_checksum() -> None:
    """As pyproject.toml asks for them, with each extra; and it names no place to fetch them from."""
    known = lock.read()
    for one in lock.declared(lock.all_extras()):
        version, sums = known[canonicalize_name(one.name)]
        assert one.specifier.contains(version), one
        assert sums
    for path in (lock.LOCK, lock.PIP, lock.TOOLS):
        text = path.read_text(encoding="utf-8")
        assert text.count("==") == len(lock.read(path))
        assert all(sums for _version, sums in lock.read(path).values())
        assert not re.search(r"https?:|file:|index", text)
    assert "hatchling" in lock.read(lock.TOOLS)
    assert list(known) == sorted(known)


def test_every_extra_is_locked() -> None:
    """One that is added later, too, unless `all` leaves it out: then no release has its libraries."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == set(lock.all_extras()) == extras.keys() - {"all", *lock.UNLOCKED}


def fake_wheel(folder: Path) -> Path:
    """A file with the metadata that the list reads."""
    wheel = folder / "costguard_agent-9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        text = "Metadata-Version: 2.4\nName: costguard-agent\nVersion: 9\nSummary: Stops.\nLicense-Expression: Apache-2.0\n"
        archive.writestr("costguard_agent-9.dist-info/METADATA", text)
    return wheel


def lock_of_here(place: Path) -> Path:
    """A lock of what is installed here: the repository's own may be of other days."""
    here = lock.pinned(lock.graph(lock.declared(lock.all_extras())))
    lock.write(place, "here", {pin: {sha256(pin.encode()).hexdigest()} for pin in here})
    return place


@pytest.fixture
def listed(tmp_path: Path) -> dict[str, Any]:
    """The list of a wheel."""
    found = json.loads(sbom(fake_wheel(tmp_path), EPOCH, lock_of_here(tmp_path / "lock.txt")))
    assert isinstance(found, dict)
    return found


def test_the_list_of_what_is_inside(listed: dict[str, Any], tmp_path: Path) -> None:
    """The wheel by its checksum, each library with version, licence and checksum, and who needs whom."""
    ours = listed["metadata"]["component"]
    assert (ours["name"], ours["version"], ours["licenses"]) == ("costguard-agent", "9", [{"expression": "Apache-2.0"}])
    assert ours["hashes"][0]["content"] == sha256(next(tmp_path.glob("*.whl")).read_bytes()).hexdigest()
    assert listed["metadata"]["timestamp"] == "2026-11-23T02:48:57Z"
    parts = {one["name"]: one for one in listed["components"]}
    assert parts["pydantic"]["scope"] == "required"
    assert parts["boto3"]["scope"] == "optional"
    assert parts["botocore"]["licenses"]
    assert all(one["hashes"] for one in parts.values())
    needs = {one["ref"]: one["dependsOn"] for one in listed["dependencies"]}
    assert needs.keys() == {ours["bom-ref"], *(one["bom-ref"] for one in parts.values())}
    assert {ref for refs in needs.values() for ref in refs} == needs.keys() - {ours["bom-ref"]}, "each is needed by one"
    assert parts["botocore"]["bom-ref"] in needs[parts["boto3"]["bom-ref"]]


def test_a_version_that_was_not_locked_is_in_no_release(tmp_path: Path) -> None:
    """The list would name what nobody tested."""
    locked = lock_of_here(tmp_path / "lock.txt")
    locked.write_text(re.sub(r"^click==\S+", "click==0.1", locked.read_text(), flags=re.MULTILINE))
    with pytest.raises(SystemExit, match=r"another version than in .*: click"):
        sbom(fake_wheel(tmp_path), EPOCH, locked)


def test_a_release_is_of_a_commit(tmp_path: Path) -> None:
    """With its date; what is not committed would be in no release that somebody else makes."""

    def git(*words: str) -> None:
        own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_COMMITTER_DATE": f"{EPOCH} +0000", "PATH": os.environ["PATH"]}
        named = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(repository), *named, *words], env=own, check=True, capture_output=True)

    repository = tmp_path / "repository"
    repository.mkdir()
    git("init")
    (repository / "file").write_text("committed\n")
    git("add", "file")
    git("commit", "-m", "one")
    assert export(repository, tmp_path / "tree") == EPOCH
    assert (tmp_path / "tree/file").read_text() == "committed\n"
    (repository / "other").write_text("")
    with pytest.raises(SystemExit, match="commit or stash it"):
        export(repository, tmp_path / "again")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """A folder with something in it would be in the checksums."""
    (tmp_path / "old.whl").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "release", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "is not empty" in done.stderr) == (1, True)
