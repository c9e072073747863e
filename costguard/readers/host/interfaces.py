"""What this machine receives and sends over its network: each byte counted once.

The network is that of process 1. Only interfaces of devices count: bridges, tunnels and the pairs of containers carry what passes
a device too, and a bond or a cloud's synthetic interface what its members carry. Where no interface has a device, as in a container,
all but loopback count. Sources: proc_pid_net(5), sysfs-class-net of the kernel's ABI documentation.
"""

import os

from costguard.readers.host.sense import SensePaths
from costguard.readers.host.table import FirstReadable

_TABLE_BYTES = 1 << 18  # some thousand containers
_RECEIVED, _SENT = 0, 8  # fields of a line
_HEAD, _ROW = 2, 200  # lines above them; bytes of a name and the first ten numbers at most
_VIRTUAL = (
    "lo",
    "ifb",
    "dummy",
    "sit",
    "tunl",
    "ip6tnl",
    "gre",
    "erspan",
    "ip_vti",
    "ip6_vti",
    "docker",
    "veth",
    "nlmon",
)


class Interfaces:
    """The bytes that each interface that counts has moved."""

    def __init__(self, place: SensePaths) -> None:
        self._table = FirstReadable(f"{place.proc}/1/net/dev", f"{place.proc}/net/dev", limit=_TABLE_BYTES)
        self._sys = f"{place.sys}/class/net"
        self._names: list[bytes] = []
        self._counted: frozenset[bytes] = frozenset()
        self._marks: list[bytes] = []  # how the rows of those that count begin

    def read(self) -> dict[str, tuple[int, int]]:
        """Received and sent by each interface that counts. Raises OSError."""
        rows = [row.partition(b":")[::2] for row in self._table.read().splitlines()[2:]]
        names = [name.strip() for name, _ in rows]
        if names != self._names:
            self._names, self._counted = names, self._choose([name.decode(errors="replace") for name in names])
            self._marks = [b"\n%s:" % name for name, _ in rows if name.strip() in self._counted]
        found = {}
        for name, (_, numbers) in zip(names, rows, strict=True):
            if name in self._counted:
                fields = numbers.split()
                if len(fields) > _SENT:
                    found[name.decode(errors="replace")] = int(fields[_RECEIVED]), int(fields[_SENT])
        return found

    def read_again(self) -> list[int] | None:
        """The same numbers, in the same order, received and sent alternating; None if the interfaces may have changed. Raises OSError and ValueError.

        While the number of rows is the same and those that count are among them, the names of the others are not read.
        """
        table = self._table.read()
        if table.count(b"\n") != len(self._names) + _HEAD:
            return None
        found = []
        for mark in self._marks:
            begin = table.index(mark)
            fields = table[begin + len(mark) : begin + _ROW].split(None, _SENT + 1)
            if len(fields) <= _SENT:
                return None
            found += [int(fields[_RECEIVED]), int(fields[_SENT])]
        return found

    def _choose(self, names: list[str]) -> frozenset[bytes]:
        devices = {name for name in names if os.path.exists(f"{self._sys}/{name}/device")}
        if devices:
            chosen = {name for name in devices if self._master(name) not in devices}
        else:
            chosen = {name for name in names if not name.startswith(_VIRTUAL) and not self._is_inner(name)}
        return frozenset(name.encode() for name in chosen)

    def _master(self, name: str) -> str:
        try:
            return os.path.basename(os.readlink(f"{self._sys}/{name}/master"))
        except OSError:
            return ""

    def _is_inner(self, name: str) -> bool:
        """Whether it is a bridge, or belongs to one or to a bond."""
        return bool(self._master(name)) or os.path.exists(f"{self._sys}/{name}/bridge")
