"""A real API server for `make test-kubernetes`, and a namespace of its own for each test."""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard_kubernetes import Kubernetes
from tests.clock import Clock
from tests.e2e.conftest import Agent
from tests.kubernetes.cluster import Cluster, missing
from tests.kubernetes.relay import Relay, relayed
from tests.kubernetes.space import ACCOUNT, DEFINED, Space, definition

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One for all tests: to start it takes seconds. Without its programs nothing is tested, and the run fails."""
    if why := missing():
        pytest.exit(why, returncode=2)
    folder = Path(tempfile.mkdtemp(prefix="kubernetes-"))
    made = Cluster(folder)
    try:
        made.start()
        for kind in DEFINED:
            one = made.done("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind))
            group, version = DEFINED[kind]
            named = f"/apis/{group}/{version}/{one['spec']['names']['plural']}"
            made.until(lambda named=named: made.ask("GET", named).code == 200)  # type: ignore[misc] # a default binds it
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def relay(cluster: Cluster) -> Iterator[Relay]:
    """What the guard takes for the server."""
    with relayed(cluster) as made:
        yield made


@pytest.fixture
def bare_space(cluster: Cluster, relay: Relay, tmp_path: Path) -> Space:
    """A namespace whose service account has no right."""
    return Space(cluster, f"ml-{next(NUMBERS)}", tmp_path / "account", relay.port)


@pytest.fixture
def space(bare_space: Space) -> Space:
    """One with the Role, granted with the commands that people read."""
    grant(bare_space, Kubernetes().policy())
    return bare_space


def grant(space: Space, manifest: str) -> None:
    """As `costguard permissions kubernetes` says."""
    named = manifest.replace("SERVICE_ACCOUNT", ACCOUNT).replace("NAMESPACE", space.name)
    space.cluster.kubectl("apply", "-n", space.name, "-f", "-", said=named)


@pytest.fixture
def agent(tmp_path: Path, nvml_library: Path, clock: Clock) -> Iterator[Agent]:
    """An agent with two GPUs that is not started yet."""
    made = Agent(tmp_path, nvml_library, clock)
    yield made
    made.stop()
