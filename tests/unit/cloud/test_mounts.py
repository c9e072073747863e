"""The kernel's tables of mounts and swap, line by line, and who hides whom."""

from pathlib import Path

import pytest

from costguard.cloud import mounts
from costguard.cloud.mounts import Mount


def tables(root: Path, **files: str) -> str:
    """A procfs with these files; ``__`` stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/").removeprefix("of_")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


ROW = Mount("1", "8:1", "/dev/sda1", "ext4", "/a b", whole=True, id="40", parent="30")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (r"40 30 8:1 / /a\040b rw - ext4 /dev/sda1 rw", ROW), (r"40 30 8:1 / /a\040b - ext4 /dev/sda1", ROW),
        (r"40 30 8:1 /part /a\040b rw shared:1 - ext4 /dev/sda1 rw", ROW._replace(whole=False)),
        ("40 30 8:1 / - ext4 /dev/sda1 rw", None), ("40 30 8:1 / /x rw - ext4", None), ("40 30 8:1 / /x rw", None), ("", None),
    ],
)  # fmt: skip
def test_a_line_of_the_table(tmp_path: Path, line: str, found: Mount | None) -> None:
    """What lacks a part is none; of a table in which there is none, nothing is known."""
    assert mounts.read(tables(tmp_path, of_1__mountinfo=f"{line}\n")) == ((found,) if found else None)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (r"/dev/sda1 /a\011b ext4 rw 0 0", Mount("1", "", "/dev/sda1", "ext4", "/a\tb")), ("/dev/sda1 /x ext4", Mount("1", "", "/dev/sda1", "ext4", "/x")),
        ("/dev/sda1 /x", None),
    ],
)  # fmt: skip
def test_a_line_of_the_old_table(tmp_path: Path, line: str, found: Mount | None) -> None:
    """Where there is no newer one: without a number and without ids."""
    assert mounts.read(tables(tmp_path, of_1__mounts=f"{line}\n")) == ((found,) if found else ())


def test_without_any_table_nothing_is_known(tmp_path: Path) -> None:
    """That is not *nothing is mounted*; both processes are looked at."""
    assert mounts.read(str(tmp_path)) is None
    assert mounts.read(tables(tmp_path, of_self__mountinfo="40 30 8:1 / /x rw - ext4 /dev/sda1 rw\n")) == (
        Mount("self", "8:1", "/dev/sda1", "ext4", "/x", whole=True, id="40", parent="30"),
    )


def test_what_is_swap_now(tmp_path: Path) -> None:
    """The first line is that of the names of the columns; odd names are as they are."""
    assert mounts.swaps(str(tmp_path)) == frozenset()
    text = "Filename\tType\tSize\n/dev/sda2 partition 5 0 -2\n\n/a\\134b\\012c file 5 0 -3\n"
    assert mounts.swaps(tables(tmp_path, swaps=text)) == {"/dev/sda2", "/a\\b\nc"}


@pytest.mark.parametrize(
    ("rows", "hidden"),
    [
        (["30 1 8:1 / / - x x", "40 30 8:2 / /a/b - x x"], False),
        (["30 1 8:1 / / - x x", "40 30 8:2 / /a/b - x x", "41 30 8:3 / /a - x x"], True),
        (["30 1 8:1 / / - x x", "41 30 8:3 / /a - x x", "40 41 8:2 / /a/b - x x"], False),
        (["30 1 8:1 / / - x x", "40 30 8:2 / /a/b - x x", "41 40 8:3 / /a/b - x x"], True),
        (["30 1 8:1 / / - x x", "40 30 8:2 / /a/b - x x", "41 40 8:3 / /a/b/c - x x"], False),
        (["30 1 8:1 / / - x x", "40 30 8:2 / /a/b - x x", "41 30 8:3 / /a/bc - x x"], False),
        (["30 1 8:1 / / - x x", "40 30 8:2 / /a/b - x x", "40 30 8:3 / /a - x x"], True),
        (["30 1 8:1 / / - x x", "40 30 8:3 / /a - x x", "40 30 8:2 / /a/b - x x"], False),
        (["30 1 8:1 / / - x x", "40 30 8:2 / /a/b - x x", "41 1 8:3 / / - x x"], True),
    ],
)
def test_who_hides_whom(tmp_path: Path, rows: list[str], hidden: bool) -> None:
    """By the ids, whatever the order; without ids that tell them apart, by the order."""
    found = mounts.read(tables(tmp_path, of_1__mountinfo="\n".join(rows) + "\n"))
    assert found is not None
    mine = next(one for one in found if one.number == "8:2")
    (tmp_path / "1/root/a/b").mkdir(parents=True)
    assert mounts.is_empty(str(tmp_path), found, mine, ()) is not hidden


def test_files_that_the_image_puts_there_are_files(tmp_path: Path) -> None:
    """A link of that name, or a folder, is somebody's; so is a file that is only called like swap."""
    proc = tables(tmp_path, of_1__mountinfo="40 30 8:2 / /a - x x\n", swaps="Filename\n/a/swapfile file\n")
    found = mounts.read(proc) or ()
    place = tmp_path / "1/root/a"
    place.mkdir(parents=True)

    def empty(mount: Mount = found[0]) -> bool:
        return mounts.is_empty(proc, found, mount, ("README",))

    (place / "README").write_text("x")
    (place / "swapfile").write_text("x")
    (place / "lost+found").mkdir()
    assert empty()
    assert not empty(found[0]._replace(whole=False))
    (place / "lost+found/x").mkdir()
    assert not empty()
    (place / "lost+found/x").rmdir()
    for odd in ("link", "folder"):
        (place / "README").unlink()
        (place / "README").symlink_to("swapfile") if odd == "link" else (place / "README").mkdir()
        assert not empty()
        if odd == "folder":
            (place / "README").rmdir()
    assert empty()
    (place / "swapfile2").write_text("x")
    assert not empty()
    assert not mounts._holds_something(str(tmp_path / "missing")), (
        "what only root may see in it, a fresh one does not have"
    )
