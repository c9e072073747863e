"""The guard. `costguard run` starts it with the effective configuration on an inherited descriptor.

Exit codes: the loop's; 2 without a usable configuration; 3 when another agent holds the directory; 1 when another
process holds its lock, so that the service manager tries again.
"""

import gc
import json
import os
import sys
from typing import Protocol

from costguard.host import files, identity, lock
from costguard.host.ports import Host
from costguard.host.real import RealHost
from costguard.process.command_lines import command_lines


class _Loop(Protocol):
    def run(self) -> int: ...


class LoopMaker(Protocol):
    """`costguard.agent.loop.Loop`, or a loop of a test."""

    def __call__(self, host: Host, config: dict[str, object], boot: files.Start) -> _Loop:
        """Make the loop; effects begin with ``run``, which returns the exit code."""


def main() -> int:
    """Run the guard; its one argument is the descriptor of the configuration."""
    from costguard.agent.loop import Loop  # imported late, so that tests can serve another loop

    return serve(Loop)


def serve(make_loop: LoopMaker) -> int:
    """Everything but the loop itself."""
    try:
        config = _configuration(int(sys.argv[1]))
    except (IndexError, ValueError, OSError) as error:
        sys.stderr.write(f"error: the guard has no configuration ({error})\nhint: start it with `costguard run`\n")
        return 2
    _own_descriptors()
    return _guard(config, make_loop)


def _guard(config: dict[str, object], make_loop: LoopMaker) -> int:
    places, machine = config.get("paths"), config.get("host")
    assert isinstance(places, dict)
    assert isinstance(machine, dict)
    runtime, state_dir = str(places["runtime"]), str(places["state"])
    try:
        locks = [lock.acquire(runtime, state_dir)]
        notes = _lock_state(state_dir, runtime, locks)
    except lock.TakenError as taken:
        sys.stderr.write(f"error: {taken}\n")
        return 3
    except lock.HeldError as held:
        sys.stderr.write(f"error: this machine is not guarded: {held}\nhint: a service retries in a few seconds\n")
        return 1
    except lock.UnusableError as unusable:
        sys.stderr.write(
            f"error: {unusable}; without its lock two agents could act on one machine\n"
            f"hint: make {runtime} writable for this user, or choose another directory with --state-dir\n"
        )
        return 2
    procfs = str(machine.get("procfs", "/proc"))
    boot_id = identity.boot_id(procfs)
    instance = str(config.get("instance") or "") or identity.instance_id(str(machine.get("sysfs", "/sys")))
    # what was seen of another task says nothing of this one: it begins as after a boot
    if instance.startswith(identity.TASK):
        boot_id = f"{boot_id}/{instance}"
    start = files.load(runtime, state_dir, boot_id, instance)
    attended = os.isatty(0) or os.isatty(2)
    start = start._replace(notes=(*notes, *start.notes), hatch=identity.escape_hatch(procfs), attended=attended)
    host = RealHost(runtime, state_dir, start, command_lines(), locks)
    try:
        loop = make_loop(host, config, start)
        gc.collect()
        gc.freeze()  # objects of the start-up are never garbage; later collections skip them
        return loop.run()
    finally:
        host.close()


def _configuration(fd: int) -> dict[str, object]:
    """Raises ValueError and OSError."""
    with open(fd, "rb") as file:
        value = json.loads(file.read())
    if isinstance(value, dict) and isinstance(value.get("paths"), dict) and isinstance(value.get("host"), dict):
        return value
    raise ValueError("no table `paths` or `host`")


def _lock_state(state_dir: str, runtime: str, locks: list[int]) -> tuple[str, ...]:
    """Lock the state directory too: two runtime directories may share it. A disk that cannot be written stops nothing."""
    try:
        locks.append(lock.acquire(state_dir, state_dir, private=False, runtime=runtime))
    except lock.UnusableError as unusable:
        return (f"{unusable}: holds and deadlines will not survive a reboot",)
    return ()


def _own_descriptors() -> None:
    """Leave exactly 0, 1 and 2 open: a process may wait for the end of an inherited pipe."""
    try:
        inherited = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        inherited = list(range(1024))
    for fd in inherited:
        if fd > 2:
            try:
                os.close(fd)
            except OSError:
                continue  # the listing's own descriptor
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
