"""Files of the kernel that are read at each look."""

import os
import time
from pathlib import Path

import pytest

from costguard.readers.host.sense import Moment, SensePaths
from costguard.readers.host.senses import SENSES
from costguard.readers.host.table import FirstReadable
from costguard.readers.host.text import read


def opened() -> set[str]:
    """What this process has open below /proc."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return {path for path in found if path.startswith("/proc/") and not path.endswith("/fd")}


def test_a_file_of_the_kernel_stays_open_and_is_read_anew() -> None:
    """It says what is true now, not when it was opened."""
    table = FirstReadable("/proc/self/nothing", "/proc/self/stat")
    before = table.read()
    mine = f"/proc/{os.getpid()}/stat"
    assert mine in opened()
    end = time.process_time() + 0.03
    while time.process_time() < end:
        pass
    assert table.read() != before
    table.close()
    assert mine not in opened()


def test_a_table_of_many_pages_is_read_to_its_end(tmp_path: Path) -> None:
    """The first time and later, whatever the kernel gives out at once."""
    table = FirstReadable("/proc/self/smaps", limit=1 << 22)
    for _ in range(2):
        found = table.read()
        assert len(found) > 20_000
        assert b"[vsyscall]" in found or b"[stack]" in found
        assert found.rstrip().rpartition(b"\n")[2].startswith(b"VmFlags")
    plain = tmp_path / "plain"
    plain.write_bytes(b"x" * 100_000)
    assert FirstReadable(str(plain), limit=1 << 20).read() == read(str(plain), 1 << 20) == b"x" * 100_000
    assert len(FirstReadable(str(plain), limit=5000).read()) == 5000


def test_another_file_is_opened_each_time(tmp_path: Path) -> None:
    """Somebody may put another one in its place."""
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("one")
    table = FirstReadable(str(file))
    assert table.read() == b"one"
    other.write_text("two")
    other.replace(file)
    assert table.read() == b"two"
    file.unlink()
    with pytest.raises(FileNotFoundError):
        table.read()


def test_what_is_gone_is_an_error_and_no_old_number() -> None:
    """As of a process that has ended."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    table = FirstReadable(f"/proc/{child}/stat")
    assert table.read().startswith(str(child).encode())
    os.kill(child, 9)
    os.waitpid(child, 0)
    with pytest.raises(OSError, match="No such"):
        table.read()


def test_a_look_at_rest_asks_the_kernel_for_little() -> None:
    """What is there at each look stays open: nothing is found and opened anew."""
    from costguard.readers.host.traffic import Traffic  # here: beside its settings

    row = next(row for row in SENSES if row.name == "traffic")
    assert row.module == "traffic"
    sense = Traffic({"network": 1e5, "disk": 2.5e5, "quiet_for": 300.0, "ignore": []}, SensePaths())
    from costguard.readers.host.processes import Processes

    processes = Processes(SensePaths())
    for second in (100.0, 110.0):
        sense.look(Moment(second, 0.0), processes)
    before = opened()
    sense.look(Moment(120.0, 0.0), processes)
    assert opened() == before
    assert "/proc/vmstat" in before
    assert any(path.endswith("/net/dev") for path in before)
