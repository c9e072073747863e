"""Five hundred guards and one account of EC2 that throttles: at boot, every day, and when all of them stop at once.

Each machine asks when its id says so; none takes throttling for a refusal; each is stopped in the end, and once.
"""

import functools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.cloud.api import Site
from costguard.engine import Policy, time_limits
from costguard.engine.plans import PREFLIGHT_EVERY_SECONDS
from costguard_aws.session import Session
from tests.fleet.ec2 import Account
from tests.fleet.guards import INTERVAL, Guard
from tests.fleet.hours import Hours, Pool

pytestmark = pytest.mark.timeout(240)

MACHINES = 500
RESTING = Policy(mode="live", kill_duration=86400.0, grace=600.0)
IDLE = Policy(mode="live", arm_duration=None, kill_duration=60.0, grace=60.0, boot_grace=0.0, unused_after=None)


@functools.cache
def session() -> Session:
    """One that is logged in, for all machines: with keys, so that it asks nobody."""
    return Session(Site({}, {"metadata": "never"}, {}), "us-east-1")


class Fleet:
    """All of them, ticking in step: the worst case."""

    def __init__(
        self, hours: Hours, folder: Path, policy: Policy, booted: float, machines: int = MACHINES, **cloud: float
    ) -> None:
        self.hours = hours
        wanted = {"spread": 1.0 * machines, "action_spread": 0.5 * machines, **cloud}  # as the docs recommend
        self.account = Account(lambda: hours.now)
        files = {
            "proc/uptime": f"{booted:.2f} 1.00\n",
            "proc/1/mountinfo": "30 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n",
        }
        for name, text in {**files, "sys/block/nvme0n1/device/model": "Amazon Elastic Block Store\n"}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self.guards = [
            Guard(number, hours, self.account, session(), str(folder), booted, policy, wanted)
            for number in range(1, machines + 1)
        ]

    def run(self, seconds: float, done: Callable[[Guard], bool] = lambda _: False) -> None:
        """Let them watch so long, or until ``done`` holds for all of them."""
        end = self.hours.now + seconds
        while self.hours.now < end and not all(done(guard) for guard in self.guards):
            for guard in self.guards:
                if not guard.over:  # it ended with its machine
                    guard.tick()
            for _ in range(int(INTERVAL)):  # a guard hears its workers at once; here within a second
                self.hours.run(self.hours.now + 1.0)
                for guard in self.guards:
                    if not guard.over:
                        guard.hear()

    def sum(self, counted: Callable[[Guard], Counter[str]]) -> Counter[str]:
        """The counts of all guards together."""
        return sum((counted(guard) for guard in self.guards), Counter())


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "fleet")
    session()
    random.seed(1)  # of the pauses between two tries
    found = Hours(monkeypatch)
    monkeypatch.setattr("costguard_aws.facts.ThreadPoolExecutor", functools.partial(Pool, found))
    return found


def misjudged(fleet: Fleet) -> str:
    """Words, when somebody took throttling for a refusal."""
    verdicts, told = fleet.sum(lambda guard: guard.verdicts), fleet.sum(lambda guard: guard.told)
    bad = [kind for kind in verdicts if kind.endswith(("refuse", "another"))]
    refusals = fleet.sum(lambda guard: guard.refusals)
    return f"{verdicts} {told} {refusals}" if bad or told["preflight_refused"] or told["cannot"] else ""


@pytest.mark.parametrize("booted", [60.0, pytest.param(200_000.0, marks=pytest.mark.thorough)])
@pytest.mark.thorough
def test_the_checks_are_spread(hours: Hours, tmp_path: Path, booted: float) -> None:
    """After a boot, and when every agent of a fleet is started for the first time; no machine is misjudged."""
    fleet = Fleet(hours, tmp_path, RESTING, booted)
    fleet.run(MACHINES * time_limits.EARLY_SHARE + 30.0)
    verdicts = fleet.sum(lambda guard: guard.verdicts)
    busiest, throttled = fleet.account.busiest(), fleet.account.throttled()
    figures = f"{busiest} calls in a second, {throttled} of {len(fleet.account.asked)} throttled, {verdicts}"
    assert misjudged(fleet) == ""
    assert (busiest <= 60, throttled) == (True, 0), figures
    assert verdicts["plan consequences"] + verdicts["plan go"] >= MACHINES, figures


@pytest.mark.thorough
def test_the_daily_checks_are_spread(hours: Hours, tmp_path: Path) -> None:
    """The second day's fall into the whole time."""
    fleet = Fleet(hours, tmp_path, RESTING, 60.0)
    fleet.run(400.0)
    hours.now = PREFLIGHT_EVERY_SECONDS - 10.0
    fleet.run(MACHINES + 60.0)
    since = PREFLIGHT_EVERY_SECONDS - 10.0
    busiest, throttled = fleet.account.busiest(since=since), fleet.account.throttled(since)
    figures = f"{busiest} calls in a second, {throttled} throttled, {fleet.sum(lambda guard: guard.verdicts)}"
    assert misjudged(fleet) == ""
    assert (busiest <= 60, throttled) == (True, 0), figures
    assert sum(fleet.sum(lambda guard: guard.verdicts).values()) == 2 * MACHINES, figures


@pytest.mark.thorough
def test_all_stop_at_once(hours: Hours, tmp_path: Path) -> None:
    """The countdowns of all end in the same second: who EC2 has no time for is decided again and asks again, within minutes."""
    fleet = Fleet(hours, tmp_path, IDLE, 200_000.0)
    fleet.run(3 * 3600.0, lambda guard: guard.over)
    stopped = sorted(fleet.account.stopped.values())
    told = fleet.sum(lambda guard: guard.told)
    figures = (
        f"{fleet.account.busiest()} calls in a second, {fleet.account.throttled()} of {len(fleet.account.asked)} "
        f"throttled; {len(stopped)} stopped, half of them after {stopped[len(stopped) // 2]:.0f} s, the last after "
        f"{stopped[-1]:.0f} s; {fleet.sum(lambda guard: guard.verdicts)} {fleet.sum(lambda guard: guard.fates)} {told}"
    )
    assert misjudged(fleet) == "", figures
    assert set(fleet.account.stops.values()) == {1}, figures
    assert (len(stopped), stopped[-1] < 600.0, told["failed"]) == (MACHINES, True, 0), figures
