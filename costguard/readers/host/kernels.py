"""Find the kernels of notebooks among the processes: each has its connection file, kernel-ID.json, among its arguments."""

from typing import NamedTuple

from costguard.readers.host.arguments import PYTHONS, Recognised
from costguard.readers.host.processes import Process, Processes, runs_still

PROGRAMS = (
    *PYTHONS, "ipykernel", "jupyter", "R", "ark", "julia", "java", "scala", "xeus", "xpython", "xcpp", "xr", "deno", "node",
    "dotnet", "ruby", "octave", "sage",
)  # fmt: skip
"""How the names of kernels begin; anything else that a server has started may be one, too."""

SERVERS = ("jupyter", "python")
"""How the names of servers begin."""

PARENTS = 4
"""How many parents of a kernel may be its server: wrappers (conda, srun, a shell) may stand between them."""

_SIGN = b"kernel-"  # how the names of connection files begin
_NAME = 32  # characters of the name of a kernel


class Kernel(NamedTuple):
    """A kernel, folder and id of its connection file, and the processes of its user above it, the nearest first."""

    process: Process
    folder: str
    id: str
    above: tuple[Process, ...]


class Kernels:
    """The kernels that run, found anew with each look."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._recognised = Recognised(_may_be_kernel, connection_file, PROGRAMS, _SIGN)

    @property
    def settled(self) -> bool:
        """Whether the next look finds the same kernels unless a process changes."""
        return self._recognised.settled

    def look(self, processes: Processes) -> list[Kernel]:
        """The kernels that run now."""
        found = self._recognised.look(processes)
        return [
            Kernel(process, folder, name, _above(process, processes))
            for process, (folder, name) in found
            if runs_still(self._proc, process)
        ]


def connection_file(arguments: list[bytes]) -> tuple[str, str] | None:
    """Folder and id of the connection file among the arguments; None where there is none."""
    for argument in arguments:
        path = argument.partition(b"=")[2] if argument.startswith(b"-") else argument  # --f=PATH, as editors write it
        folder, _, name = path.rpartition(b"/")
        if name.startswith(_SIGN) and name.endswith(b".json") and folder.startswith(b"/"):
            return folder.decode(errors="surrogateescape"), name[7:-5].decode(errors="replace")
    return None


def _may_be_kernel(process: Process, processes: Processes) -> bool:
    if process.name.startswith(PROGRAMS):
        return True
    parent = processes.get(process.parent)
    return parent is not None and parent.name.startswith(SERVERS)


def _above(process: Process, processes: Processes) -> tuple[Process, ...]:
    found: list[Process] = []
    one: Process | None = process
    while one is not None and len(found) < PARENTS:
        one = processes.get(one.parent)
        if one is None or one.pid <= 1 or one.uid != process.uid:
            break
        found.append(one)
    return tuple(found)


def shown(name: str) -> str:
    """The name of a kernel as far as Jupyter allows one: nobody can put words about somebody else into it."""
    return "".join(letter for letter in name if letter.isascii() and (letter.isalnum() or letter in "._-"))[:_NAME]
