"""One machine in each cloud, from its boot to the end of its bill and beyond: nothing but the cloud itself is a stand-in."""

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from costguard.engine import time_limits
from costguard.engine.attempt import RETRY_SECONDS, TRIES_PER_LINK
from tests.vm.clouds import Aws, Azure, Google, Rented
from tests.vm.image import Image

pytestmark = pytest.mark.timeout(1800)

DRY = """\
mode = "dry-run"
preset = "gpu-sentinel"
kill_action = "stop"
fallback = ["shutdown"]
interval = "2s"
arm_threshold = "5%"
arm_duration = "4s"
kill_threshold = "5%"
kill_duration = "30s"
stop_below_load = false
aggregate = "all"
grace = "45s"

[host]
sysfs = "/opt/standin/sys"

[cloud]
spread = "0s"
"""
"""Short times, which a machine's end has only under such a preset."""

LIVE = DRY.replace("dry-run", "live")
STORY_SECONDS = 400.0
PAUSES_SECONDS = RETRY_SECONDS * (2.0 ** (TRIES_PER_LINK - 1) - 1.0)
FALLBACK_SECONDS = STORY_SECONDS + TRIES_PER_LINK * time_limits.prepare(0.0).killed + PAUSES_SECONDS
"""With every attempt to reach the cloud, each of which may use up its whole time, and the pauses between them, before the next link of the list."""

OFF_HOURS = 3


@pytest.fixture(scope="module", params=[Aws, Google, Azure], ids=["aws", "gcp", "azure"])
def rented(request: pytest.FixtureRequest, image: Image) -> Iterator[Rented]:
    """One machine for the whole story of a cloud."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        request.param.running(Path(folder)) as cloud,
        Rented(image, Path(folder), cloud) as machine,
    ):
        machine.set_up_in_cloud(DRY)
        yield machine


def hours_off(rented: Rented) -> float:
    """After an action, by its history."""
    days = json.loads(rented.shell("costguard history --json"))["days"]
    return float(sum(day["off"] for day in days)) / 3600.0


def idle_after_work(rented: Rented) -> None:
    """Work until the guard has seen it, then none."""
    rented.move(util=90)
    rented.wait("ARMED: ")
    rented.move(util=0)


def test_a_dry_run_tells_what_it_would_do_and_never_acts(rented: Rented) -> None:
    """The plan was made with the cloud's own answers."""
    idle_after_work(rented)
    rented.wait("dry run, nothing done: ", STORY_SECONDS)
    rented.until(lambda: rented.told("DRY RUN"))
    assert rented.cloud.ends() == 0


def test_one_whose_cloud_refuses_stays_up_and_tells(rented: Rented) -> None:
    """No way around a refusal is tried, though a shutdown would be one."""
    rented.cloud.refuse()
    rented.configure(LIVE)
    idle_after_work(rented)
    rented.wait("NOT POSSIBLE: ", STORY_SECONDS)
    rented.until(lambda: rented.told("the bill goes on"))
    assert rented.cloud.ends() == 0
    rented.cloud.allow()


def test_it_is_stopped_once_after_a_warning_and_the_next_boot_closes_the_incident(rented: Rented) -> None:
    """Work, idle, warning, a hold, its release, the stop; and it knows afterwards how long it was off."""
    rented.configure(LIVE)
    idle_after_work(rented)
    rented.wait("WARNING: ", STORY_SECONDS)
    rented.run("costguard", "hold", "1h", "--reason", "one more look", user="alice")
    rented.wait("HELD: ")
    assert rented.cloud.ends() == 0
    rented.run("costguard", "release", user="alice")
    rented.off(STORY_SECONDS)
    assert rented.cloud.ends() == 1
    assert "will be stopped" in rented.seen_at_end[0]
    rented.wait("reboot: Power down")
    rented.date = datetime.now(UTC) + timedelta(hours=OFF_HOURS)
    rented.boot_again()
    rented.wait("confirmed: ")
    assert OFF_HOURS - 0.2 < hours_off(rented) < OFF_HOURS + 0.2
    assert rented.cloud.ends() == 1


def test_one_whose_cloud_cannot_be_reached_shuts_down_where_that_was_proven(rented: Rented) -> None:
    """By the plan that was made while it could be reached; the stop is not asked for a second time. Where a shutdown ends no bill people are told, and the cloud stops it once it is back."""
    rented.configure(LIVE)
    rented.until(lambda: rented.planned("stop") in {"go", "consequences"})
    ends = rented.cloud.ends()
    rented.cut()
    idle_after_work(rented)
    if not isinstance(rented.cloud, Azure):
        rented.off(FALLBACK_SECONDS)
        assert rented.cloud.ends() == ends
        return
    rented.wait("FAILED: ", FALLBACK_SECONDS)
    rented.until(lambda: rented.told("failed; the bill goes on"))
    assert rented.cloud.ends() == ends
    rented.mend()
    rented.shell("costguard stop --yes 2>&1 | systemd-cat --identifier=stop &")
    rented.off(STORY_SECONDS)
    assert rented.cloud.ends() == ends + 1
