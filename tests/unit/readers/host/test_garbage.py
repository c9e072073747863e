"""Senses on a /proc whose files say anything: unknown or quiet, and never an error."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from costguard.readers.host.cluster import Cluster
from costguard.readers.host.cpu import Cpu
from costguard.readers.host.holders import Holders
from costguard.readers.host.named_processes import NamedProcesses
from costguard.readers.host.ssh import Ssh
from costguard.readers.host.traffic import Traffic
from tests.unit.readers.host.tree import Tree

if TYPE_CHECKING:
    from costguard.readers.host.sense import Sense

FILES = (
    "proc/20/stat", "proc/20/io", "proc/20/cmdline", "proc/20/status", "proc/20/comm", "proc/20/cgroup", "proc/20/net/tcp",
    "proc/20/net/tcp6", "proc/21/stat", "proc/21/io", "proc/1/net/dev", "proc/1/net/route", "proc/vmstat", "proc/stat",
    "proc/loadavg", "etc/passwd", "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
)  # fmt: skip
NUMBERS = (
    "0",
    "-1",
    "18446744073709551616",
    "1e9",
    "NaN",
    "0x7f",
    "",
    "\u0664",
    "99999999999999999999999999",
    "7 8 9 " * 30,
)
WORDS = (
    "sshd", "slurmd", "raylet", "torchrun", "python3", ")", "(", "S", "Z", "eth0:", "cpu ", "rchar: ", "wchar: ", "pgpgin ", "nr_dirtied ",
    "\npgpgout ", "NSpid:\t", "Uid:\t", "0A", "01", "0100007F:0016", "0200004D:7530", ":", "\0", "\n", "\n", "\x1b[2J", "\udcff", " ",
)  # fmt: skip


def anything(chance: random.Random) -> bytes:
    """Parts of such files, in any order."""
    parts = [
        chance.choice((*NUMBERS, *WORDS, *WORDS)) + chance.choice(("", " ", "\n")) for _ in range(chance.randrange(40))
    ]
    return "".join(parts).encode(errors="surrogateescape")


def look_like(pid: int, name: str, chance: random.Random) -> bytes:
    """A process that can be read, mostly."""
    rest = " ".join(chance.choice(NUMBERS) if chance.random() < 0.1 else "20" for _ in range(48))
    return f"{pid} ({name}) S 10 {rest}\n".encode()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_files_say_nothing_raises(tmp_path: Path, seed: int) -> None:
    """Half of each round is garbage, the rest nearly right; descriptors lead anywhere."""
    chance = random.Random(seed)
    tree = Tree(tmp_path)
    place = tree.place
    common = {"quiet_for": 300.0, "ignore": [], "users": [], "ignore_users": []}
    senses: list[Sense] = [
        Traffic({**common, "network": 1e5, "disk": 2.5e5}, place), Ssh({**common, "session": 5e4, "editor": 150.0, "editor_cores": 0.3}, place),
        Cluster({**common, "standalone": False}, place), Cpu({**common, "cores": 0.5}, place), Holders(common, place),
        NamedProcesses({**common, "names": ["sshd"]}, place),
    ]  # fmt: skip
    tree.process(10, "sshd")
    for pid in (20, 21):
        tree.process(pid, "sshd", parent=10, io=(1, 1), exe="/srv/.vscode-server/node")
    for _ in range(60):
        for file in FILES:
            if chance.random() < 0.5:
                tree.write(file, "")
                (tree.root / file).write_bytes(anything(chance))
        for pid in (20, 21):
            if chance.random() < 0.7:
                name = chance.choice(("sshd", "slurmd", "python3", "torchrun", "nomad", "raylet", "\x1b[2J"))
                (tree.proc / str(pid) / "stat").write_bytes(look_like(pid, name, chance))
            targets = [
                "/dev/nvidia0",
                "/dev/nvidia-uvm",
                "socket:[20]",
                "socket:[x]",
                "socket:[",
                "/dev/nvidia",
                "pipe:[7]",
            ]
            tree.opens(pid, *chance.sample(targets, 3))
        for sense in senses:
            sight = tree.look(sense, chance.choice((0.0, 1.0, 10.0, 10.0, 400.0)))
            assert all(one.last <= tree.now and one.since <= one.last for one in sight.active)
            assert not any("\x1b" in one.who + one.what for one in sight.active)
