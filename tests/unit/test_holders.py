"""Which processes hold which GPU, from a tree that looks like /proc."""

import os
import tempfile
from pathlib import Path

import pytest

from costguard import holders

DOCKER = "0123456789abcdef" * 4


def process(
    procfs: Path, pid: int, *targets: str, name: str = "python3", cgroup: str = "0::/", command: str = ""
) -> Path:
    folder = procfs / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, target in enumerate(targets):
        (folder / "fd" / str(number)).symlink_to(target)
    (folder / "comm").write_text(name + "\n")
    (folder / "cgroup").write_text(cgroup + "\n")
    (folder / "cmdline").write_text(command.replace(" ", "\0"))
    return folder


def test_holders_are_named_with_their_gpus_and_their_place(tmp_path: Path) -> None:
    """Every process that has a GPU's device open, once, with its container, job or service."""
    process(
        tmp_path, 10, "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", cgroup=f"0::/system.slice/docker-{DOCKER}.scope"
    )
    process(tmp_path, 11, "/dev/nvidia1", "/dev/null", name="train")
    process(tmp_path, 12, "/dev/nvidiactl", "/dev/nvidia-uvm", "socket:[17]", name="nvidia-smi")
    process(tmp_path, 13, "/data/nvidia0", name="cat")
    found = holders.scan(str(tmp_path))
    assert [(h.pid, h.name, h.minors, h.place) for h in found.holders] == [
        (10, "python3", (0, 1), f"docker {DOCKER[:12]}"),
        (11, "train", (1,), ""),
    ], "neither the driver's control device nor a file of that name is a GPU"
    assert (found.hidden, found.complete) == (0, True)


def test_known_watchers_and_our_own_reader_are_marked(tmp_path: Path) -> None:
    """They hold a GPU without working on it, so nobody looks for the job behind them."""
    process(tmp_path, 1, "/dev/nvidia0", name="nvidia-persiste")
    process(tmp_path, 2, "/dev/nvidia0", name="python3.11", command="python3 start.py costguard.readers.nvml.reader -")
    process(tmp_path, 3, "/dev/nvidia0", name="python3", command="python3 train.py")
    assert [(h.name, h.monitor) for h in holders.scan(str(tmp_path)).holders] == [
        ("nvidia-persiste", True),
        ("costguard (reader)", True),
        ("python3", False),
    ]


@pytest.mark.parametrize(
    ("cgroup", "place"),
    [
        (f"0::/system.slice/docker-{DOCKER}.scope", f"docker {DOCKER[:12]}"),
        (f"12:devices:/docker/{DOCKER}", f"docker {DOCKER[:12]}"),
        (f"0::/machine.slice/libpod-{DOCKER}.scope", f"podman {DOCKER[:12]}"),
        (f"0::/kubepods.slice/kubepods-pod1/cri-containerd-{DOCKER}.scope", f"containerd {DOCKER[:12]}"),
        (f"0::/system.slice/nerdctl-{DOCKER}.scope", f"containerd {DOCKER[:12]}"),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user", "Slurm job 4711"),
        ("4:cpuset:/slurm/uid_1000/job_99/step_batch", "Slurm job 99"),
        ("0::/lxc.payload.box-1/system.slice", "LXC box-1"),
        ("0::/system.slice/costguard.service", "service costguard"),
        ("0::/user.slice/user-1000.slice/session-3.scope", ""),
        ("0::/", ""),
        ("", ""),
    ],
)
def test_control_groups_tell_the_place(cgroup: str, place: str) -> None:
    """Of each kind of container, job and service."""
    assert holders.place(cgroup) == place


def test_what_may_not_be_looked_into_is_counted() -> None:
    """Fewer rights make a shorter list, never a silent one."""
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are closed to others
        procfs = Path(folder)
        procfs.chmod(0o755)
        process(procfs, 10, "/dev/nvidia0")
        (process(procfs, 11, "/dev/nvidia0") / "fd").chmod(0)
        user = os.geteuid()
        os.seteuid(user or 65534)  # for root nothing is closed
        try:
            found = holders.scan(folder)
        finally:
            os.seteuid(user)
        (procfs / "11/fd").chmod(0o755)
    assert ([holder.pid for holder in found.holders], found.hidden) == ([10], 1)


def test_it_ends_in_time(tmp_path: Path) -> None:
    """Very many processes: what was seen is told, and that it is not all."""
    process(tmp_path, 10, "/dev/nvidia0")
    assert holders.scan(str(tmp_path), seconds=-1.0).complete is False


def test_the_driver_says_which_device_is_which_gpu(tmp_path: Path) -> None:
    """Device numbers are no indices."""
    folder = tmp_path / "driver/nvidia/gpus/0000:02:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t\t NVIDIA H200\nDevice Minor: \t 5\n")
    assert holders.addresses(str(tmp_path)) == {5: "0000:02:00.0"}
    assert holders.addresses("/nonexistent") == {}


def test_the_real_proc_is_looked_through() -> None:
    """Whatever runs here: no error, and soon."""
    assert holders.scan("/proc").complete
