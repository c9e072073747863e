"""Kill -9 of the guard and of its worker between every two steps of a cloud action, and the network cut at each of them.

The installed command on the strict stand-ins of a cloud, with a clock that runs faster (`tests.clock`), so that half an
hour of waiting is a minute. After each kill the agent is started again on the same directory, as a service manager would.
"""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import costguard_azure.testing as azure
import costguard_gcp.testing as gcp
from costguard.agent.journal import PREFIXES
from costguard.testing.web import Answer
from costguard_aws.testing import Api, FakeMachine, Imds, Nature

from .conftest import Agent
from .test_agent import kill, ours, until_gone

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]

RATE, HEAVY_RATE = 8, 3
"""How much faster the agent's time runs; with SDKs that take seconds to load, a worker needs more of the real time."""

GRACE = "grace=120s"
"""Long enough for a worker to be ready before it is due, also on a computer that is busy."""

SENT_WITHIN = 120.0
"""Real seconds within which anything here happens, also on a machine that is busy."""

SETTINGS = (
    *("mode=live", "preset=gpu-sentinel", "interval=1s", "arm_duration=off", "kill_action=stop", "grace=20s"),
    *("notify.attempts=1", "cloud.spread=0s", "host.stands_for_host=true"),
)


class Gate:
    """Where a request with an effect waits: before the cloud looks at it, and before it is answered."""

    def __init__(self) -> None:
        self.arrived, self.acted = threading.Event(), threading.Event()
        self.enter, self.leave = threading.Event(), threading.Event()
        self.enter.set()
        self.leave.set()
        self.lost = False  # what has arrived never reaches the cloud

    def pass_through(self, act: Callable[[], Any]) -> Any:
        """None: no answer, the connection is cut."""
        self.arrived.set()
        self.enter.wait(SENT_WITHIN)
        if self.lost:
            return None
        answer = act()
        self.acted.set()
        self.leave.wait(SENT_WITHIN)
        return answer

    def open(self) -> None:
        """Let everything go on."""
        self.enter.set()
        self.leave.set()


class GatedApi(Api):
    """EC2, with a gate before StopInstances. ``resets``: so many calls of any kind end with a reset connection."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.resets = 0

    def answer(self, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """As the services, when the gate lets it."""
        if self.resets > 0:
            self.resets -= 1
            reset(self.server.open)
            return None
        if b"Action=StopInstances" in body and b"DryRun" not in body:
            found: Answer | None = self.gate.pass_through(lambda: super(GatedApi, self).answer(headers, body))
            return found
        return super().answer(headers, body)


def reset(connections: set[socket.socket]) -> None:
    """Reset them, as a firewall does."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for connection in list(connections):
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            os.dup2(nothing, connection.fileno())  # its owner may close it again without harm
    os.close(nothing)


class GatedGcp(gcp.ComputeApi):
    """The Compute Engine API with a gate before ``stop``."""

    gate: Gate

    def _answer(self, request: Any) -> Any:
        if request.method == "POST" and request.path.endswith("/stop"):
            return self.gate.pass_through(lambda: super(GatedGcp, self)._answer(request))
        return super()._answer(request)


class Rented:
    """A machine in its cloud with an agent on it."""

    def __init__(self, agent: Agent, gate: Gate, effects: Callable[[], int]) -> None:
        self.agent, self.gate, self.effects = agent, gate, effects
        self.told = ""  # the logs of the guards that are gone

    def start(self, *settings: str) -> None:
        """Start the agent, or start it again."""
        self.agent.start(*SETTINGS, *settings, enough=bool)

    @property
    def stories(self) -> int:
        """How often it began: time runs fast here, so a busy machine makes holes, after each of which people are warned anew."""
        return 1 + self.log.count("saw nothing for a while")

    @property
    def log(self) -> str:
        """All that was ever said."""
        return self.told + (self.agent.folder / "log").read_text()

    def kill_guard(self, *settings: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """SIGKILL; then, after a moment, another one on the same directory."""
        kill(self.agent)
        meanwhile()
        time.sleep(0.2)
        self.told = self.log
        self.start(*settings)

    def worker(self) -> int:
        """The process that acts, or asks, once there is one."""
        end = time.monotonic() + SENT_WITHIN
        while True:
            for pid in ours(self.agent):
                with suppress(OSError):
                    if b"costguard.actions.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        return pid
            assert time.monotonic() < end, self.log
            time.sleep(0.02)

    def wait(self, word: str, stories: int = 1) -> dict[str, Any]:
        """Until the phase, or the end that was latched, is this one; ``stories``: how often it may begin again until then."""
        end = time.monotonic() + SENT_WITHIN * stories
        while word not in {(report := self.agent.report())["phase"], report["done"]}:
            assert time.monotonic() < end, self.log
            time.sleep(0.02)
        return report

    def said(self, *kinds: str) -> bool:
        """Whether people were told something of one of these kinds."""
        words = "|".join(re.escape(PREFIXES[kind]) for kind in kinds)
        return re.search(f"^({words}): ", self.log, re.MULTILINE) is not None

    def ready(self) -> int:
        """The worker that waits for the release; the countdown runs."""
        self.wait("WARNING")
        end = time.monotonic() + SENT_WITHIN
        while b"pipe" not in wchan(pid := self.worker()):  # another one after a countdown that began again
            assert time.monotonic() < end, self.log
            time.sleep(0.05)
        return pid

    def at_rest(self, seconds: float = 16.0) -> None:
        """So long in the agent's own time nothing more is sent."""
        before = self.effects()
        time.sleep(seconds / RATE)
        assert self.effects() == before


def wchan(pid: int) -> bytes:
    """What a process sleeps on: one that has done everything and waits for its next line reads from its pipe."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            return b""
        call = Path(f"/proc/{pid}/syscall").read_text().split()
        return os.readlink(f"/proc/{pid}/fd/0").encode() if call[:2] == ["0", "0x0"] else b""
    except OSError:
        return b""


@pytest.fixture
def quick(agent: Agent) -> Iterator[Agent]:
    """An agent in a time that runs faster, on a machine that has booted."""
    agent.hurry(RATE)
    agent.settings = [setting for setting in agent.settings if not setting.startswith(("interval", "arm_"))]
    yield agent
    for pid in ours(agent):  # one that was stopped must not outlive a test that failed
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    agent.stop()
    until_gone(agent)


def place(agent: Agent, procfs: Path, **settings: str) -> None:
    """What of the machine's own files the agent needs, and where its cloud is."""
    for name, text in {"1/cgroup": "0::/init.scope\n", "sys/kernel/random/boot_id": "boot-1\n"}.items():
        (procfs / name).parent.mkdir(parents=True, exist_ok=True)
        (procfs / name).write_text(text)
    agent.settings += [f"host.procfs={procfs}", *(f"cloud.{name}={value}" for name, value in settings.items())]


class Aws(Rented):
    """The stand-ins for EC2."""

    def __init__(self, agent: Agent, imds: Imds, api: GatedApi) -> None:
        super().__init__(agent, api.gate, lambda: len(self.accepted))
        self.imds, self.api = imds, api
        self.here = FakeMachine(imds, api, str(agent.folder), "g5g.xlarge", Nature())
        place(agent, agent.folder / "proc", metadata_endpoint=imds.url, api_endpoint=api.url)
        agent.environment |= self.here.environ()

    @property
    def accepted(self) -> list[str]:
        """The attempt of each request that EC2 took."""
        taken = [call for call in self.api.calls("StopInstances") if call.answered == 200]
        return [re.findall(r"costguard-attempt/(\S+)", call.agent)[0] for call in taken]

    def check(self) -> None:
        """Whatever happened: one stop at most of each story, however often its request was sent, and true words about it."""
        assert len(set(self.accepted)) <= self.stories, self.accepted
        if self.here.state == "stopped":
            assert not self.said("failed"), self.log


@pytest.fixture
def aws(quick: Agent) -> Iterator[Aws]:
    with ExitStack() as stack:
        imds = stack.enter_context(Imds().running())
        api = GatedApi()
        stack.enter_context(api.running())
        made = Aws(quick, imds, api)
        stack.callback(made.here.ec2.close)
        stack.callback(made.gate.open)
        yield made
        made.check()


# -- before the request ------------------------------------------------------------------------------------


def test_the_guard_dies_before_the_warning(aws: Aws) -> None:
    """It goes on with the window where it was; one stop at the end."""
    aws.start()
    time.sleep(15 / RATE)
    assert aws.agent.report()["phase"] == "WATCHING"
    aws.kill_guard()
    aws.wait("acted")
    assert (aws.effects(), aws.here.state) == (1, "stopped")


def test_the_guard_dies_in_the_countdown(aws: Aws) -> None:
    """The worker that waited ends with it; people are warned of what comes, and it comes once."""
    aws.start(GRACE)
    pid = aws.ready()
    aws.kill_guard(GRACE)
    assert pid not in ours(aws.agent)
    assert aws.effects() == 0
    aws.wait("acted")
    assert aws.effects() == 1


def test_the_worker_dies_in_the_countdown(aws: Aws) -> None:
    """Another one is made ready in time."""
    aws.start(GRACE)
    os.kill(aws.ready(), signal.SIGKILL)
    aws.wait("acted")
    assert aws.effects() == 1


@pytest.mark.parametrize("who", ["guard", "worker"])
def test_work_comes_back_while_one_is_dead(aws: Aws, who: str) -> None:
    """Nothing is sent: what was prepared does not count, the readings do."""
    aws.start(GRACE)
    pid = aws.ready()
    if who == "guard":
        aws.kill_guard(GRACE, meanwhile=lambda: aws.agent.gpus.set(util=95))
    else:
        os.kill(pid, signal.SIGKILL)
        aws.agent.gpus.set(util=95)
    aws.wait("WATCHING")
    aws.at_rest(140.0)
    assert (aws.effects(), aws.here.state) == (0, "running")
    assert aws.said("cancelled")


def released(aws: Aws) -> int:
    """The worker has its release and has not read it yet."""
    aws.start(GRACE)
    pid, end = 0, time.monotonic() + SENT_WITHIN
    while aws.agent.report()["phase"] != "ACTING":
        if pid not in ours(aws.agent):  # on a busy machine a countdown may begin again, with another worker
            pid = aws.ready()
            os.kill(pid, signal.SIGSTOP)
        assert time.monotonic() < end, aws.log
        time.sleep(0.02)
    return pid


@pytest.mark.parametrize("who", ["guard", "worker"])
def test_released_and_dead_before_the_request(aws: Aws, who: str) -> None:
    """Nobody can say that nothing was sent: unknown, told, not repeated; EC2 is asked for five minutes."""
    pid = released(aws)
    if who == "guard":
        aws.kill_guard()
    else:
        os.kill(pid, signal.SIGKILL)
    assert aws.wait("CONFIRMING")["incident"]
    report = aws.wait("unknown")
    assert "EC2 shows running: the bill goes on" in report["incident"]["detail"]
    assert (aws.effects(), aws.here.state) == (0, "running")
    assert aws.said("outcome_unknown")
    aws.agent.gpus.set(util=95)
    aws.wait("WATCHING")
    assert aws.effects() == 0


# -- the request is out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["guard", "worker", "both"])
@pytest.mark.parametrize("when", ["enter", "leave"])
def test_killed_while_the_request_is_out(aws: Aws, who: str, when: str) -> None:
    """Before EC2 looks at it, and after it took it without having answered: one stop, seen or recorded, never *failed*."""
    getattr(aws.gate, when).clear()
    aws.start()
    assert aws.gate.arrived.wait(SENT_WITHIN), aws.log
    assert when == "enter" or aws.gate.acted.wait(SENT_WITHIN)
    if who != "guard":
        os.kill(aws.worker(), signal.SIGKILL)
    if who != "worker":
        kill(aws.agent)
    aws.gate.open()
    if who != "worker":
        aws.told = aws.log
        aws.start()
    aws.wait("acted")
    assert aws.here.state == "stopped"
    assert aws.said("accepted", "asking", "stopping"), aws.log


@pytest.mark.parametrize("who", ["guard", "worker"])
def test_killed_with_the_answer_in_hand(aws: Aws, who: str) -> None:
    """EC2 has answered, the worker has not recorded it."""
    aws.gate.leave.clear()
    aws.start()
    assert aws.gate.acted.wait(SENT_WITHIN), aws.log
    pid = aws.worker()
    os.kill(pid, signal.SIGSTOP)
    aws.gate.open()
    time.sleep(0.2)
    if who == "guard":
        aws.kill_guard()
        os.kill(pid, signal.SIGCONT)
    else:
        os.kill(pid, signal.SIGKILL)
    aws.wait("acted")
    assert (aws.effects(), aws.here.state) == (1, "stopped")


@pytest.mark.parametrize("who", ["guard", "worker"])
def test_killed_and_the_request_is_lost(aws: Aws, who: str) -> None:
    """It never reached EC2: unknown, and told so."""
    aws.gate.enter.clear()
    aws.gate.lost = True
    aws.start()
    assert aws.gate.arrived.wait(SENT_WITHIN), aws.log
    os.kill(aws.worker(), signal.SIGKILL)
    if who == "guard":
        aws.kill_guard()
    aws.gate.open()
    report = aws.wait("unknown")
    assert "the bill goes on" in report["incident"]["detail"]
    assert (aws.effects(), aws.here.state) == (0, "running")
    assert aws.said("outcome_unknown")


# -- afterwards ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["guard", "worker"])
def test_killed_while_it_confirms(aws: Aws, who: str) -> None:
    """EC2 shows `stopping` for some looks: the question is asked again, the request is not sent again."""
    aws.api.slow = 3
    aws.start()
    aws.wait("CONFIRMING")
    pid = aws.worker()
    if who == "guard":
        aws.kill_guard()
    else:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    aws.wait("acted")
    assert aws.effects() == 1
    assert aws.said("stopping")


def test_the_guard_dies_after_the_end_was_seen(aws: Aws) -> None:
    """The end is latched: nothing is sent again, by no guard."""
    aws.start()
    aws.wait("acted")
    aws.kill_guard()
    assert aws.wait("acted")["incident"]["proof"]
    aws.at_rest()
    assert aws.effects() == 1
    assert all(aws.said(kind) for kind in ("warning", "acting", "accepted", "done"))


# -- the network ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["closed", "reset", "silent", "metadata"])
def test_cut_while_it_plans(aws: Aws, cut: str) -> None:
    """Technical: tried again, and stopped when the network is back."""
    if cut == "closed":
        aws.api.fail("cut_before", "DescribeInstances", times=8)
    elif cut == "silent":
        aws.api.fail("silent", "DescribeInstances", times=2)
    elif cut == "reset":
        aws.api.resets = 8
    aws.imds.off = cut == "metadata"
    aws.start()
    if cut == "metadata":
        aws.wait("WARNING")
        time.sleep(20 / RATE)
        aws.imds.off = False
    aws.wait("acted")
    assert aws.effects() == 1


@pytest.mark.parametrize(
    ("kind", "times"),
    [("cut_before", 1), ("cut_after", 1), ("cut_after", 3), ("internal", 2), ("internal_after", 1), ("silent", 1),
     ("throttle", 6), ("page_after", 1)],
)  # fmt: skip
def test_trouble_with_the_request(aws: Aws, kind: Any, times: int) -> None:
    """Closed, refused for now, or answered wrongly, with and without an effect: the machine stops, and nobody says *failed*."""
    aws.api.fail(kind, "StopInstances", times=times)
    aws.start()
    aws.wait("acted")
    assert aws.here.state == "stopped"


def test_reset_at_the_request(aws: Aws) -> None:
    """As if it had been closed."""
    aws.gate.enter.clear()
    aws.start()
    assert aws.gate.arrived.wait(SENT_WITHIN), aws.log
    reset(aws.api.server.open)
    aws.gate.open()
    aws.wait("acted")
    assert aws.here.state == "stopped"


def test_cut_while_it_confirms(aws: Aws) -> None:
    """Accepted is known, the rest is asked for again."""
    aws.gate.leave.clear()
    aws.start()
    assert aws.gate.acted.wait(SENT_WITHIN), aws.log
    aws.api.fail("cut_before", "DescribeInstances", times=7)
    aws.gate.open()
    aws.wait("acted")
    assert aws.effects() == 1


def test_accepted_and_nothing_happens(aws: Aws) -> None:
    """After five minutes the next link follows, decided anew and told; without one it has failed, told too."""
    script = aws.agent.folder / "act"
    script.write_text(f"#!/bin/sh\necho acted >> {aws.agent.folder}/acted\n")
    script.chmod(0o755)
    aws.api.fail("ignore", "StopInstances", times=9)
    aws.start("fallback=['command']", f'actions.command.run=["{script}"]')
    aws.wait("acted", stories=4)
    assert aws.effects() <= aws.stories
    assert aws.here.state == "running"
    assert (aws.agent.folder / "acted").read_text() == "acted\n"
    assert aws.said("next_action")
    assert "nothing has happened" in aws.log


def test_accepted_nothing_happens_and_nothing_is_left_to_try(aws: Aws) -> None:
    """*Failed* is a true word here, and it is said aloud."""
    aws.api.fail("ignore", "StopInstances", times=9)
    aws.start()
    aws.wait("FAILED", stories=4)
    assert aws.effects() <= aws.stories
    assert aws.here.state == "running"
    assert aws.said("failed")


# -- the other clouds ------------------------------------------------------------------------------------------


@contextmanager
def on_gcp(agent: Agent) -> Iterator[Rented]:
    machine, gate = gcp.Machine(), Gate()
    with gcp.MetadataServer(machine) as metadata, GatedGcp(machine) as api:
        api.gate = gate
        _, procfs = gcp.firmware(agent.folder, machine)
        place(agent, Path(procfs), metadata_endpoint=metadata.url, api_endpoint=api.url)
        yield Rented(agent, gate, lambda: len(api.effects))
        gate.open()


@contextmanager
def on_azure(agent: Agent) -> Iterator[Rented]:
    gate = Gate()
    with azure.FakeAzure(azure.World(), faster=RATE) as here:
        here.faults.add("deallocate", "slow", seconds=1.0)
        for file in ("sys_vendor", "product_name", "chassis_asset_tag"):
            target = agent.folder / "sys/class/dmi/id" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text((Path(here.folder) / "sys/class/dmi/id" / file).read_text())
        section = {name: here.settings[name] for name in ("metadata_endpoint", "api_endpoint")}
        place(agent, Path(here.folder) / "proc", **section)
        agent.environment |= here.environ
        yield Rented(agent, gate, lambda: len(here.sent("deallocate")))


@pytest.mark.parametrize("who", ["guard", "worker"])
@pytest.mark.parametrize("cloud", [on_gcp, on_azure])
def test_on_the_other_clouds(quick: Agent, cloud: Any, who: str) -> None:
    """Killed after the cloud took the request and before it answered: one request, and its end is seen."""
    quick.hurry(HEAVY_RATE)
    with cloud(quick) as rented:
        rented.gate.leave.clear()
        rented.start()
        end = time.monotonic() + SENT_WITHIN
        while not rented.effects():
            assert time.monotonic() < end, rented.log
            time.sleep(0.01)
        pid = rented.worker()
        if who == "guard":
            rented.kill_guard()
        else:
            os.kill(pid, signal.SIGKILL)
        rented.gate.open()
        rented.wait("acted")
        assert rented.effects() == 1
        assert not rented.said("failed"), rented.log
