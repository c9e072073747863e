"""A configuration of gpu_mon, as `costguard fill` takes it."""

from pathlib import Path

import pytest

from costguard.cli.gpu_mon import read
from costguard.errors import CostguardError

WHOLE = """
[defaults]
interval_seconds = 10
[gpu-all]
gpus = ALL
ignore_programs = Xorg, python-miner
[process-all]
gpus = ALL
dir = /srv
cmd = ./run.sh --name 'two words'
log = /srv/log.txt
[process-one]
gpus = 1
dir = /one
cmd = one
[process-pair]
gpus = 0, 2
dir = /pair
cmd = pair
[tty]
enabled = True
whitelist = ann, bob
idle_seconds = 300
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpu_mon.conf"
    path.write_text(WHOLE)
    return path


def test_every_key_has_its_place(file: Path) -> None:
    """gpu_mon: interval, ignore list without blanks, work for all, for one and for a set, folder, log, quoting, users."""
    found = read(str(file))
    assert (found.interval, found.ignore) == (10.0, ("Xorg", "python-miner"))
    assert (found.users_for, found.ignore_users, found.notes) == (300.0, ("ann", "bob"), ())
    everything, pair, one = found.fillers
    assert everything.command == ("./run.sh", "--name", "two words")
    assert (everything.gpus, everything.together, everything.directory, everything.log) == (
        (),
        True,
        "/srv",
        "/srv/log.txt",
    )
    assert (pair.gpus, pair.together) == (("0", "2"), True)
    assert (one.gpus, one.together, one.log) == (("1",), False, "")


def test_sections_of_gpus_limit_the_work(file: Path) -> None:
    """Work for all is work for those of the [gpu] sections, which is said."""
    file.write_text(WHOLE.replace("gpus = ALL\nignore", "gpus = 0,1,2\nignore", 1))
    found = read(str(file))
    assert found.fillers[0].gpus == ("0", "1", "2")
    assert found.notes == ("only GPUs 0, 1, 2 are used, as the [gpu] sections say",)
    file.write_text(WHOLE.replace("gpus = ALL\nignore", "gpus = 0\nignore", 1))
    with pytest.raises(CostguardError, match="no GPU that a \\[gpu\\] section allows"):
        read(str(file))


def test_users_are_no_matter_where_that_is_off(file: Path) -> None:
    """[tty] enabled = no."""
    file.write_text(WHOLE.replace("enabled = True", "enabled = no"))
    assert read(str(file)).users_for == 0.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("interval_seconds = 10", "", r"\[defaults\] interval_seconds is missing"),
        ("interval_seconds = 10", "interval_seconds = 0", "out of range; allowed: 1 to 3600"),
        ("enabled = True", "", r"\[tty\] enabled is missing"),
        ("enabled = True", "enabled = perhaps", "allowed: yes, no"),
        ("idle_seconds = 300", "idle_seconds = soon", "not a number of seconds"),
        ("cmd = one", "", r"\[process-one\] cmd is missing"),
        ("cmd = one", "cmd = 'one", "No closing quotation"),
        ("cmd = one", "cmd =", "cmd is empty"),
        ("gpus = 1", "gpus = first", "allowed: ALL, or numbers with commas"),
        ("ignore_programs = Xorg, python-miner", "", "ignore_programs is missing"),
        ("[tty]", "[tty", "is no configuration of gpu_mon"),
    ],
)
def test_what_is_wrong_is_named(file: Path, old: str, new: str, message: str) -> None:
    """Section and key, instead of a traceback."""
    file.write_text(WHOLE.replace(old, new, 1))
    with pytest.raises(CostguardError, match=message):
        read(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(CostguardError, match="No such file"):
        read(str(tmp_path / "none"))
