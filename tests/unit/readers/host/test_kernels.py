"""Which processes are kernels of notebooks, and whose server is above them."""

import os
from pathlib import Path

import pytest

from costguard.readers.host.kernels import PARENTS, Kernels, connection_file, shown
from tests.unit.readers.host.tree import Tree

FILE = "/run/kernel-ab-1.json"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["python", "-f", FILE], ("/run", "ab-1")),
        (["python", "-m", "ipykernel_launcher", f"--f={FILE}"], ("/run", "ab-1")),
        (["java", "-Dx=y", "-jar", "k.jar", FILE], ("/run", "ab-1")),
        (["R", "/a/b/kernel-.json"], ("/a/b", "")),
        (["R", "/kernel-x.json"], None),
        (["R", "kernel-x.json"], None),
        (["R", "run/kernel-x.json"], None),
        (["R", "/run/kernel-x.json.bak"], None),
        (["R", "/run/mykernel-x.json"], None),
        (["R", "/run/kernel_x.json"], None),
        (["R", "x=/run/kernel-x.json"], None),
        (["R", "-x", "/run/other.json", FILE, "/run/kernel-2.json"], ("/run", "ab-1")),
        (["R"], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_connection_file_among_the_arguments(words: list[str], found: tuple[str, str] | None) -> None:
    """As each program that starts a kernel writes it."""
    assert connection_file([word.encode() for word in words]) == found


def test_a_name_that_is_no_text_is_a_folder_still() -> None:
    """It is looked into as it is written."""
    folder, name = connection_file([b"/\xff/kernel-\xff.json"]) or ("", "")
    assert (os.fsencode(folder), name) == (b"/\xff", "\ufffd")


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("python3", "python3"), ("py_3.11-x", "py_3.11-x"), ("a b", "ab"), ("x\n`y`", "xy"), ("\u00e9t\u00e9", "t"), ("", ""),
        ("n" * 32, "n" * 32), ("n" * 33, "n" * 32), ("\u0663", ""),
    ],
)  # fmt: skip
def test_the_name_of_a_kernel_is_what_jupyter_allows(name: str, seen: str) -> None:
    """And no longer than people read."""
    assert shown(name) == seen


def chain(tree: Tree, *, length: int, other: int = -1) -> list[int]:
    """A kernel below so many processes; ``other``: which of them is another user's, the nearest is 0."""
    top = 400
    tree.process(top + length, "python3", parent=top + length - 1 if length else 1)
    for place in range(length):
        pid = top + length - 1 - place
        tree.process(pid, "wrap", parent=pid - 1 if place < length - 1 else 1)
        if place == other:
            os.chown(tree.proc / str(pid), 4711, 4711)
    tree.write(f"proc/{top + length}/cmdline", f"python3\0-f\0{FILE}\0")
    tree.pass_by()
    (kernel,) = Kernels(tree.place.proc).look(tree.processes)
    assert (kernel.process.pid, kernel.folder, kernel.id) == (top + length, "/run", "ab-1")
    return [top + length - one.pid for one in kernel.above]


@pytest.mark.parametrize("length", range(PARENTS + 3))
def test_its_server_is_a_few_processes_above_it(tmp_path: Path, length: int) -> None:
    """Up to four; the first process of the machine is nobody's."""
    assert chain(Tree(tmp_path), length=length) == list(range(1, min(length, PARENTS) + 1))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make processes of another user")
@pytest.mark.parametrize("other", range(3))
def test_above_another_users_process_nobody_is_asked(tmp_path: Path, other: int) -> None:
    """A kernel that somebody has started as another user has no server of his."""
    assert chain(Tree(tmp_path), length=3, other=other) == list(range(1, other + 1))


@pytest.mark.parametrize(
    ("name", "parent", "found"),
    [
        ("python3", "bash", True), ("xeus-cling", "bash", True), ("mykernel", "bash", False), ("mykernel", "jupyter-lab", True),
        ("mykernel", "python3", True), ("mykernel", "ajupyter", False), ("Rscript", "bash", True), ("rsession", "bash", False),
    ],
)  # fmt: skip
def test_who_may_be_a_kernel(tmp_path: Path, name: str, parent: str, found: bool) -> None:
    """By the name of its program, or whatever a server has started; else its arguments are not even read."""
    tree = Tree(tmp_path)
    tree.process(400, parent)
    tree.process(401, name, parent=400)
    tree.write("proc/401/cmdline", f"{name}\0{FILE}\0")
    tree.pass_by()
    kernels = Kernels(tree.place.proc)
    assert len(kernels.look(tree.processes)) == found
    kernels.look(tree.processes)
    assert kernels.settled
    tree.ends(401)
    assert kernels.look(tree.processes) == [], "though the list of processes shows it still"
