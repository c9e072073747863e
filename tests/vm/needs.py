"""In the machine, in the sandbox of the service: ``needs.py NAME…`` does each of these things as the guard does it, and prints ``NAME: works`` or what became of it."""

import errno
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from costguard import holders
from costguard.actions import init_rights, sigterm
from costguard.clocks import boot_clock
from costguard.config.addresses import lacks
from costguard.history.store import opened
from costguard.host.control import Control
from costguard.host.identity import boot_id
from costguard.host.poller import Poller
from costguard.notify import wall
from costguard.notify.message import Message
from costguard.notify.terminals import people
from costguard.process.outside import in_service
from costguard.readers.host.editor_window import EditorWindow

STATE, RUNTIME = Path("/var/lib/costguard"), Path("/run/costguard")
DRIVERS_SECONDS = 20.0
"""For what loads the driver, which runs beside the guard."""

WORKS = "works"
KERNELS = ("/proc", "/sys", "/dev")
"""File systems without files."""


def terminal() -> str:
    """A word to alice, at the second serial line."""
    reached = wall.deliver(Message("1", "held", "info", "a word", ""), {})
    return WORKS if "ttyS1" in reached else reached


def seat() -> str:
    """She is seen there."""
    return WORKS if "/dev/ttyS1" in people("/proc", "/dev") else "nobody is seen"


def holder() -> str:
    """Bob's program has a GPU open."""
    return WORKS if "bob" in {found.user for found in holders.scan("/proc").holders} else "nobody is seen"


def signal() -> str:
    """It is asked to end."""
    said = sigterm._send("/proc")
    return WORKS if said == "SIGTERM was sent to 1 process that held a GPU" else said


def counted() -> str:
    """What the connections of alice's server have moved."""
    window = EditorWindow("/proc", int(Path("/srv/server.pid").read_text()))
    window.moved()
    return WORKS if window.counted else "no bytes are counted"


def page() -> str:
    """Her server is asked, as a cloud is, and the addressee of a message."""
    with urlopen("http://127.0.0.1:8000/metrics", timeout=10) as answer:
        return WORKS if answer.read() == b"requests 1\n" else "another answer"


def gpu() -> str:
    """A device of the driver's leads to the driver, which the machine has not."""
    return _device("/dev/nvidia0")


def mig() -> str:
    """So does one with a number that the kernel draws when the driver is loaded."""
    return _device("/dev/nvidia-caps/nvidia-cap1")


def _device(path: str) -> str:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
    return WORKS


def driver() -> str:
    """What loads the driver before the guard starts may make its devices."""
    end = time.monotonic() + DRIVERS_SECONDS
    while not os.path.exists("/dev/nvidia-made"):
        if time.monotonic() > end:
            return "no device was made"
        time.sleep(0.1)
    return WORKS


def poweroff() -> str:
    """Nothing else asks systemd for it."""
    may = init_rights.ask(("systemctl", "poweroff"), "CanPowerOff", systemd=True, new_privileges=False)
    return may.missing or WORKS


def units() -> str:
    """Hooks and probes run in units of their own."""
    return WORKS if in_service() else "no systemd is seen"


def boot() -> str:
    """What survives a restart must not survive a boot."""
    return WORKS if boot_id() else "which boot this is cannot be read"


def secret() -> str:
    """A channel's addresses, in root's home."""
    why = [lack.why for lack in lacks({"pager": {"urls": f"file:{Path('~root/pager.url').expanduser()}"}})]
    return why[0] if why else WORKS


def history() -> str:
    """Everybody may read it."""
    path = STATE / "tried.db"
    path.unlink(missing_ok=True)
    with opened(str(path)):
        mode = path.stat().st_mode
    path.unlink()
    return WORKS if mode & stat.S_IROTH else f"others may not read it ({mode & 0o777:o})"


def socket() -> str:
    """Where status and hold reach the guard."""
    folder = RUNTIME / "tried"
    folder.mkdir(exist_ok=True)
    poller = Poller()
    control = Control(poller, str(folder), boot_clock)
    failed = control.open()
    control.close()
    poller.close()
    return failed or WORKS


def start() -> str:
    """It runs."""
    return WORKS


def written() -> str:
    """Where it may write: to nothing but its own folders, and devices."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    own = sorted({at for at in mounts if not at.startswith(KERNELS) and not os.statvfs(at).f_flag & os.ST_RDONLY})
    return WORKS if own == [str(RUNTIME), str(STATE)] else f"it may write to {own}"


def main() -> None:
    """Try each."""
    things: dict[str, Callable[[], str]] = {
        thing.__name__: thing
        for thing in (
            *(terminal, seat, holder, signal, counted, page, gpu, mig, driver, poweroff),
            *(units, boot, secret, history, socket, start, written),
        )
    }
    for name in sys.argv[1:] or things:
        try:
            said = things[name]()
        except Exception as error:  # noqa: BLE001 - whatever keeps it from working is the finding
            said = repr(error)
        print(f"{name}: {said}", flush=True)


if __name__ == "__main__":
    main()
