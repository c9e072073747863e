"""The marks of a container."""

from pathlib import Path

import pytest

from costguard.cloud.container import evidence

HOST = {"1/cgroup": "0::/init.scope\n", "self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"}
LAYER = "600 500 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A\n"


def procfs(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.mark.parametrize(
    "files",
    [
        {"self/root/.dockerenv": ""},
        {"self/root/run/.containerenv": ""},
        {"self/root/run/systemd/container": "lxc"},
        {"1/cgroup": "0::/kubepods.slice/pod1\n"},
        {"1/cgroup": "4:memory:/docker/0123\n"},
        {"self/mountinfo": LAYER},
    ],
)
def test_each_mark_is_enough(tmp_path: Path, files: dict[str, str]) -> None:
    """Container engines leave different marks, and newer kernels hide some."""
    assert evidence(procfs(tmp_path, {**HOST, **files}), {})


def test_the_environment_of_an_engine_counts(tmp_path: Path) -> None:
    """Podman and systemd set ``container``."""
    assert evidence(procfs(tmp_path, HOST), {"container": "podman"})


def test_a_host_has_no_mark(tmp_path: Path) -> None:
    """Neither a layer of another mount nor a session's control group makes a container."""
    other = HOST["self/mountinfo"] + LAYER.replace(" / / ", " / /var/lib/docker/overlay2/x/merged ")
    assert evidence(procfs(tmp_path, {**HOST, "self/mountinfo": other}), {}) == ""


@pytest.mark.parametrize("file", HOST)
def test_half_of_it_readable_is_enough(tmp_path: Path, file: str) -> None:
    """Either says that there is no mark; a line that is cut off says nothing."""
    assert evidence(procfs(tmp_path, {file: HOST[file]}), {}) == ""
    cut = {
        **HOST,
        "self/mountinfo": "600 500 0:50 /\n- overlay \n1 2 3 / - overlay /docker/ x\n600 500 0:50 / / - overlay /docker/\n",
    }
    assert evidence(procfs(tmp_path, cut), {}) == "the root file system is a layer of docker"
    assert evidence(procfs(tmp_path, {**HOST, "self/mountinfo": "600 500 0:50 / - overlay /docker/\n"}), {}) == ""


def test_nothing_readable_is_unknown(tmp_path: Path) -> None:
    """Unknown is not *no*."""
    assert evidence(str(tmp_path), {}) is None
