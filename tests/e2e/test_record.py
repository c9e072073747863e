"""``costguard record`` under attack, and what it wrote against what the GPUs were told to do.

The importer below is made from docs/replay.md alone, so that the page is enough for anybody's own.
"""

import gzip
import json
import os
import resource
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from costguard.testing.nvml import Script, write_sysfs

from .conftest import ADDRESSES, COMMAND, Agent
from .test_agent import acted, command

thorough = pytest.mark.thorough


class Row(NamedTuple):
    """One look at one GPU. ``load`` is None and ``words`` say why where it could not be read."""

    at: float
    load: float | None
    signs: tuple[str, ...]
    covers: float
    words: str


def imported(path: Path) -> dict[str, list[Row]]:
    """A recording by GPU."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = zlib.decompressobj(31).decompress(raw)
    found: dict[str, list[Row]] = {}
    keys: list[str] = []
    before: list[Any] = []
    began = None
    for line in raw.decode().splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # it was killed there
        value = json.loads(line)
        if isinstance(value, dict) and "costguard_trace" in value:
            assert value["costguard_trace"] == 1
            began = value["began"]
        elif isinstance(value, dict) and "senses" in value:
            continue
        elif isinstance(value, dict):
            keys, before = [gpu["key"] for gpu in value["gpus"]], []
        else:
            assert began is not None
            now = [before[place] if each is None else each for place, each in enumerate(value[1:])]
            for key, each in zip(keys, now, strict=True):
                found.setdefault(key, []).append(row(began + value[0], each))
            before = now
    return found


def row(at: float, value: Any) -> Row:
    if isinstance(value, str):
        return Row(at, None, (), 0.0, value)
    load, signs, covers = value if isinstance(value, list) else (value, [], 0.0)
    return Row(at, load, tuple(signs), covers, "")


class Recorder:
    """The command on two scripted GPUs."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.gpus = Script(folder / "gpus", gpus=2, name="NVIDIA H200")
        for index, address in enumerate(ADDRESSES):
            self.gpus.set(index, pci=address)
        self.sysfs = write_sysfs(folder / "sys", ADDRESSES)
        self.environment = os.environ | self.gpus.environment(library) | {"TZ": "UTC", "NO_COLOR": "1"}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, name: str, *options: str, before: Callable[[], object] | None = None) -> "subprocess.Popen[str]":
        """Begin to record."""
        out = name if name.startswith(("-", "/")) else str(self.folder / name)
        process = subprocess.Popen(
            [*COMMAND, "record", "--out", out, "--sysfs", str(self.sysfs), "--no-senses", *options],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            preexec_fn=before,  # noqa: PLW1509 - the tests have no threads
        )  # fmt: skip
        self.started.append(process)
        return process

    def until(self, name: str, holds: Callable[[dict[str, list[Row]]], bool], seconds: float = 40.0) -> None:
        """Until what is in the file holds."""
        end = time.monotonic() + seconds
        path = self.folder / name
        while not (path.exists() and holds(imported(path))):
            assert time.monotonic() < end, path.read_text() if path.exists() else "there is no file"
            time.sleep(0.1)

    def replay(self, name: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """What the policies say of it."""
        return subprocess.run(
            [*COMMAND, "replay", str(self.folder / name), "--json", *options],
            env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.fixture
def recorder(tmp_path: Path, nvml_library: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path, nvml_library)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def ended(process: "subprocess.Popen[str]", *numbers: int) -> tuple[int, str, str]:
    """Exit code, words and complaints, after these signals."""
    for number in numbers:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@thorough
@pytest.mark.parametrize("name", ["a b.jsonl.gz", "a.jsonl"])
def test_it_says_what_the_gpus_were_told_to_do(recorder: Recorder, name: str) -> None:
    """Load, a sign of work, a GPU that is lost and comes back, with dates that fit."""
    first, second = ADDRESSES
    began = time.time()
    process = recorder.start(name, "--interval", "1s")
    time.sleep(6)
    recorder.gpus.set(0, util=60, power=500)
    time.sleep(4)
    recorder.gpus.set(1, lost=True)
    time.sleep(4)
    recorder.gpus.set(1, lost=False)
    recorder.gpus.set(0, util=0, power=70)
    time.sleep(4)
    code, out, _ = ended(process, signal.SIGINT)
    assert code == 0
    assert out.endswith(f"costguard replay '{recorder.folder / name}'\n" if " " in name else f"{name}\n")
    found = imported(recorder.folder / name)
    steps = [later.at - earlier.at for earlier, later in zip(found[first], found[first][1:], strict=False)]
    assert began <= found[first][0].at <= began + 10
    assert all(0.9 < step < 2.5 for step in steps), steps
    loads = [each.load for each in found[first]]
    assert {0.0, 0.6} <= set(loads)
    assert loads[-1] == 0.0
    assert any("power 430 W above idle" in each.signs for each in found[first] if each.load == 0.6)
    lost = [each.words for each in found[second] if each.load is None]
    assert 3 <= len(lost) <= 5
    assert all("the GPU is lost" in words for words in lost)
    assert found[second][-1].load == 0.0
    assert max(each.covers for each in found[first][1:]) < 3.0
    assert recorder.replay(name).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", ["a.jsonl", pytest.param("a.jsonl.gz", marks=thorough)])
def test_whoever_ends_it_gets_a_whole_file(recorder: Recorder, name: str, number: int) -> None:
    """Also when it is asked again and again meanwhile."""
    process = recorder.start(name, "--interval", "0.1s")
    recorder.until(name, bool)
    time.sleep(0.5)
    code, out, err = ended(process, *[number] * 20)
    assert (code, err) == (0, "")
    raw = (recorder.folder / name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    assert text.endswith("]\n")
    assert f"{len(imported(recorder.folder / name)[ADDRESSES[0]])} looks" in out


@pytest.mark.parametrize("name", ["a.jsonl", pytest.param("a.jsonl.gz", marks=thorough)])
def test_killed_it_has_written_what_it_saw(recorder: Recorder, name: str) -> None:
    """The first look is there at once, however far apart they are."""
    process = recorder.start(name, "--interval", "1h")
    recorder.until(name, bool)
    assert ended(process, signal.SIGKILL)[0] == -signal.SIGKILL
    assert recorder.replay(name).returncode == 0


def test_a_terminal_that_is_closed_does_not_end_what_ignores_it(recorder: Recorder) -> None:
    """As `nohup` starts it."""
    process = recorder.start("a", "--interval", "0.1s", before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    recorder.until("a", bool)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    assert ended(process, signal.SIGTERM)[0] == 0


@pytest.mark.parametrize("limit", [0, 300, 420])
@pytest.mark.parametrize("name", ["a.jsonl", pytest.param("a.jsonl.gz", marks=thorough)])
def test_a_full_disk_is_told(recorder: Recorder, name: str, limit: int) -> None:
    """At the beginning, in the middle, and when the last of it is written: never a success."""
    limit = limit // 2 if name.endswith(".gz") else limit
    process = recorder.start(
        name, "--interval", "0.1s", "--duration", "3s",
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    code, out, err = ended(process)
    assert (code, out) == (2, ""), err
    assert "File too large" in err
    assert "hint: " in err
    if limit == 0:
        assert not (recorder.folder / name).exists()
    else:
        assert f"`costguard replay {recorder.folder / name}`" in err


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("-", (), "standard output"),
        ("fifo", (), "exists and was left alone"),
        ("/dev/stdout", (), "exists and was left alone"),
        ("gpus", (), "exists and was left alone"),
        ("no/folder", (), "cannot be written: No such file"),
        ("a", ("--duration", "0"), "out of range"),
        ("a", ("--duration", "-1"), "is not a duration"),
        ("a", ("--duration", "8"), "write 8h or 8m"),
        ("a", ("--interval", "0"), "out of range"),
        ("a", ("--interval", "nan"), "is not a duration"),
    ],
)
def test_what_it_refuses(recorder: Recorder, name: str, options: tuple[str, ...], words: str) -> None:
    """Nothing is overwritten, nothing is left behind."""
    os.mkfifo(recorder.folder / "fifo")
    before = {path: path.stat().st_size for path in recorder.folder.iterdir()}
    code, _, err = ended(recorder.start(name, *options))
    assert code == 2
    assert words in err
    assert {path: path.stat().st_size for path in recorder.folder.iterdir()} == before


def test_a_recording_of_nothing_is_none(recorder: Recorder) -> None:
    """The driver hangs from the beginning: told, and no file that looks like a recording."""
    recorder.gpus.hang("nvmlInit")
    process = recorder.start("a", "--interval", "0.2s")
    end = time.monotonic() + 60.0
    while not Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text():  # its reader, which never answers
        assert time.monotonic() < end
        time.sleep(0.05)
    code, _, err = ended(process, signal.SIGINT)
    assert code == 3
    assert "nothing was recorded" in err
    assert "costguard doctor" in err
    assert not (recorder.folder / "a").exists()


@thorough
def test_a_slow_driver_has_its_time(recorder: Recorder) -> None:
    """Eight GPUs without persistence mode take twelve seconds and more until the first answer."""
    recorder.gpus.delay("nvmlInit", 12)
    process = recorder.start("a", "--interval", "1s")
    recorder.until("a", bool)
    code, _, err = ended(process, signal.SIGINT)
    assert (code, err) == (0, "")


@thorough
@pytest.mark.timeout(170)
def test_a_driver_that_hangs_goes_and_comes_back(recorder: Recorder) -> None:
    """Unknown with its reason, or a hole; never a number; and both GPUs go on afterwards."""
    process = recorder.start("a", "--interval", "1s")
    recorder.until("a", bool)
    recorder.gpus.set(util=80)
    troubles: list[Callable[[], object]] = [
        lambda: recorder.gpus.fail("*", 9),
        lambda: recorder.gpus.fail("*", 15),
        lambda: recorder.gpus.hang("*"),
    ]
    for trouble in troubles:
        time.sleep(4)
        before = time.time()
        trouble()
        recorder.until("a", lambda found: found[ADDRESSES[0]][-1].load is None)
        time.sleep(3)
        recorder.gpus.heal()
        recorder.until("a", lambda found: found[ADDRESSES[0]][-1].load is not None, 60.0)
        seen = [each for each in imported(recorder.folder / "a")[ADDRESSES[1]] if each.at > before]
        assert any(each.load is None and each.words for each in seen)
        assert {each.load for each in seen} <= {0.8, None}
    assert ended(process, signal.SIGINT)[0] == 0


@thorough
def test_its_replay_decides_as_the_agent_did(agent: Agent, nvml_library: Path) -> None:
    """The same GPUs, guarded and recorded at the same time: as many actions, at the same moments."""
    script = (agent.gpus, Path(next(s for s in agent.settings if "host.sysfs" in s).partition("=")[2]))
    recorder = Recorder.__new__(Recorder)
    recorder.folder, recorder.gpus, recorder.sysfs = agent.folder, *script
    recorder.environment, recorder.started = agent.environment, []
    del nvml_library
    process = recorder.start("a", "--interval", "0.2s")
    recorder.until("a", bool)
    agent.start(*command(agent.folder))
    moments = []
    for _ in range(2):
        agent.gpus.set(util=90)
        agent.until(lambda report: bool(report["armed"]) and report["phase"] == "WATCHING")
        time.sleep(1)
        agent.gpus.set(util=0)
        agent.until(lambda report: report["done"] == "acted")
        moments.append(time.time())
    recorder.until("a", lambda found: found[ADDRESSES[0]][-1].at > moments[-1] + 3.0)  # it may lag behind the agent
    assert ended(process, signal.SIGINT)[0] == 0
    policy = "kill_action=command, arm_duration=1s, interval=0.2s, window_rule=unbroken, kill_duration=2s, grace=1s, boot_grace=0s"
    done = recorder.replay("a", "--policy", f"{policy}, actions.command.run=['true'], unused_after=off")
    assert done.returncode == 0, done.stderr
    decided = json.loads(done.stdout)["policies"][0]["machines"][0]["decisions"]
    stops = [each for each in decided if each["kind"] == "stop"]
    assert len(stops) == acted(agent.folder) == 2, decided
    for stop, moment in zip(stops, moments, strict=True):
        assert abs(stop["at"] - moment) < 3.0, (stop, moment)
