"""The mark of a tree that costguard started, and how whoever looks at a GPU tells background work by it. No import that a reader would have to keep.

The mark is a limit of RTTIME (microseconds that a real-time process may compute without a pause) from `MARKED` on: no program uses
it, and every process inherits it, whatever it does to its parents, session and environment. Nobody can put it on another user's process.
"""

MARKED = 1 << 62
"""From here on the limit is a mark, and no limit: 146 000 years hinder nobody."""

BACKGROUND = 1 << 39
"""In the marks of background work."""

INITIAL_NAMESPACE = "pid:[4026531836]"
"""The machine's own numbers of processes, which are those of the driver. Source: PROC_PID_INIT_INO of the kernel."""

_LIMIT = b"Max realtime timeout"


def mark_on(pid: int, proc: str = "/proc") -> int | None:
    """The mark of a process; 0 without one, None where there is no such process to be seen. Source: proc_pid_limits(5)."""
    try:
        with open(f"{proc}/{pid}/limits", "rb", buffering=0) as file:
            lines = file.read(4096).splitlines()
        soft = next((line[len(_LIMIT) :].split()[0] for line in lines if line.startswith(_LIMIT)), b"")
    except OSError:
        return None
    number = int(soft) if soft.isdigit() else 0
    return number if number >= MARKED else 0
