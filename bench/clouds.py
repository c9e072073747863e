"""How long a cloud takes from the decision to the accepted request, on the stand-ins of each cloud."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import costguard_aws.testing as aws
import costguard_azure.testing as azure
import costguard_gcp.testing as gcp
from bench.measure import Memory, memory, rss_kib
from bench.ours import RESIDENTS, Agent, residents
from bench.world import GPUS, World
from costguard.process.command_lines import command_lines
from costguard.testing.nvml import Script, write_sysfs

PATIENCE = 30.0
"""Seconds for one plan."""

SETTLED_SECONDS = 25.0
"""Until every reader has answered: the first request to a metadata service waits for up to 10 s."""


class Place(NamedTuple):
    """A machine on its cloud's stand-ins."""

    host: Mapping[str, object]
    section: Mapping[str, object]
    environ: Mapping[str, str]
    provider: str


class Speed(NamedTuple):
    """Medians, in seconds: from the worker's start to the accepted request, from *go* to that; MiB while it waits."""

    whole: float
    released: float
    waiting: float


class CloudFailedError(Exception):
    """A worker did not do what is measured."""


@contextmanager
def _aws(folder: Path) -> Iterator[Place]:
    with aws.machine(str(folder), "g5g.xlarge") as here:
        section = {"metadata_endpoint": here.imds.url, "api_endpoint": here.api.url}
        yield Place(_host(folder / "sys", folder / "proc"), section, here.environ(), "aws=costguard_aws")


@contextmanager
def _gcp(folder: Path) -> Iterator[Place]:
    machine = gcp.Machine()
    with gcp.MetadataServer(machine) as metadata, gcp.ComputeApi(machine) as api:
        sysfs, procfs = gcp.firmware(folder, machine)
        section = {"metadata_endpoint": metadata.url, "api_endpoint": api.url}
        yield Place(_host(sysfs, procfs), section, {}, "gcp=costguard_gcp")


@contextmanager
def _azure(folder: Path) -> Iterator[Place]:
    del folder
    with azure.FakeAzure(azure.World()) as here:
        yield Place(
            _host(f"{here.folder}/sys", f"{here.folder}/proc"), here.settings, here.environ, "azure=costguard_azure"
        )


CLOUDS: Mapping[str, Callable[[Path], Any]] = {"AWS": _aws, "Google Cloud": _gcp, "Azure": _azure}
LIMITS = {"AWS": 1.5, "Google Cloud": 4.0, "Azure": 1.5}
"""Seconds from the decision to the accepted request."""


def speed(name: str, runs: int) -> Speed:
    """Stop so many machines, one after the other. Raises CloudFailedError."""
    found = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="costguard-bench-") as folder, CLOUDS[name](Path(folder)) as place:
            found.append(_stop(place, folder))
    return Speed(*(statistics.median(column) for column in zip(*found, strict=True)))


def _host(sysfs: object, procfs: object) -> dict[str, object]:
    return {"sysfs": str(sysfs), "procfs": str(procfs), "stands_for_host": True}


def _stop(place: Place, folder: str) -> tuple[float, float, float]:
    job = {
        "job": "act", "action": "stop", "mode": "live", "attempt": "b-a1", "incident": "b-i1", "deadline": 30,
        "host": place.host, "cloud": place.section, "providers": [place.provider], "results": f"{folder}/results",
    }  # fmt: skip
    environ = {**os.environ, **place.environ}
    began = time.monotonic()
    with subprocess.Popen(
        command_lines()["act"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environ
    ) as worker:
        assert worker.stdin
        assert worker.stdout
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        plan, ready = worker.stdout.readline(), worker.stdout.readline()
        prepared = time.monotonic()
        if b'"ready"' not in ready:
            worker.kill()
            raise CloudFailedError(f"no plan to act: {plan.decode()[:300]}")
        waits = memory([worker.pid]).alone
        released = time.monotonic()
        worker.stdin.write(b'{"go":true}\n')
        outcome = worker.stdout.readline()
        ended = time.monotonic()
        worker.stdin.close()
        if b'"accepted"' not in outcome:
            raise CloudFailedError(f"not accepted: {outcome.decode()[:300]}")
    return prepared - began + ended - released, ended - released, waits


def resident(world: World, name: str) -> Memory:
    """What stays in memory on a machine of this cloud: guard, readers of GPUs and host, and that of the metadata service.

    Raises AgentFailedError and CloudFailedError.
    """
    with tempfile.TemporaryDirectory(prefix="costguard-bench-") as folder, CLOUDS[name](Path(folder)) as place:
        write_sysfs(Path(str(place.host["sysfs"])), [f"0000:{number:02x}:00.0" for number in range(1, GPUS + 1)])
        settings = {
            **{
                f"host.{key}": "true" if value is True else value
                for key, value in place.host.items()
                if key != "procfs"
            },
            **{f"cloud.{key}": place.section[key] for key in ("metadata_endpoint", "api_endpoint")},
        }
        with Agent(world, 1.0, logging=False, settings=settings, environ=place.environ) as agent:
            time.sleep(SETTLED_SECONDS)
            found = residents(agent.pid)
            if len(found) <= len(RESIDENTS):
                raise CloudFailedError(f"not all of the readers run on {name}: {', '.join(found)}")
            return memory(found.values())


def growth(world: World, plans: int) -> int:
    """KiB by which the guard's own memory grows while so many plans are made with a cloud. Raises CloudFailedError."""
    with tempfile.TemporaryDirectory(prefix="costguard-bench-") as folder, aws.machine(folder, "g5g.xlarge") as here:
        write_sysfs(Path(folder) / "sys", ["0000:01:00.0"])
        settings = {
            "interval": "1s", "notify.local": "[]", "notify.local_only": "true", "cloud.spread": "0s", "host.stands_for_host": "true",
            "host.sysfs": f"{folder}/sys", "host.procfs": f"{folder}/proc",
            "cloud.metadata_endpoint": here.imds.url, "cloud.api_endpoint": here.api.url,
        }  # fmt: skip
        sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "costguard", "run", "--state-dir", f"{folder}/state", *sets]
        script = Script(Path(folder) / "gpus", gpus=1, util=90)
        script.set(0, pci="0000:01:00.0")
        environ = {**os.environ, **here.environ(), **script.environment(world.library)}
        with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as guard:
            try:
                _planned(here, 1)
                before = 0
                for count in range(2, plans + 2):
                    if count == 4:  # by then each way of its work has been gone once
                        before = rss_kib(guard.pid)
                    guard.send_signal(signal.SIGHUP)  # a reload has every action planned anew
                    _planned(here, count)
                return rss_kib(guard.pid) - before
            finally:
                guard.terminate()
                guard.wait(10)


def _planned(here: aws.FakeMachine, count: int) -> None:
    """Wait until the cloud was asked for the plan of so many checks."""
    end = time.monotonic() + PATIENCE
    while len(here.api.calls("StopInstances", dry=True)) < count:  # each plan asks whether it may
        if time.monotonic() > end:
            raise CloudFailedError(f"the guard did not have its plan made for the {count}th time")
        time.sleep(0.05)
    time.sleep(0.5)  # the answer is on its way to the guard
