"""`costguard hold` that comes after the request: exit code 3, and true words about what can be done then, for all that each cloud does.

Each action leaves through the plug-in itself to the strict stand-ins of its cloud, and ends there while the verb is asked.
"""

import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

import costguard_azure.testing as azure
import costguard_gcp.testing as gcp
from costguard.cloud.api import Verb
from costguard_aws.testing import Api, FakeMachine, Imds, Nature

from .conftest import Agent
from .test_cloud_kills import SETTINGS, place, quick  # noqa: F401 - a fixture

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]

RATE = 4
"""How much faster the time of the agent runs."""

PATIENCE = 90.0
LOOKS = 4
"""So often the cloud shows the machine on its way before it has ended."""

DELETED = "a terminated machine is deleted and cannot be started again: create a new one"
ID = "{id}"
"""In the place of the machine's own id."""


class Rented(NamedTuple):
    """A machine in its cloud: its id, and what of it the cloud has been asked to do."""

    id: str
    asked: Callable[[], Sequence[str]]


@contextmanager
def on_aws(agent: Agent, action: Verb) -> Iterator[Rented]:
    """EC2; only what was launched for it, on a type without a GPU, hibernates."""
    sleeps = action == "hibernate"
    with ExitStack() as stack:
        imds, api = stack.enter_context(Imds().running()), stack.enter_context(Api().running())
        api.slow = LOOKS
        here = FakeMachine(
            imds, api, str(agent.folder), "m5.large" if sleeps else "g5g.xlarge", Nature(hibernation=sleeps)
        )
        stack.callback(here.ec2.close)
        place(agent, agent.folder / "proc", metadata_endpoint=imds.url, api_endpoint=api.url)
        agent.environment |= here.environ()
        names = {"StopInstances": "stop", "TerminateInstances": "terminate"}
        yield Rented(
            here.id,
            lambda: [
                "hibernate" if call.parameters.get("Hibernate") == "true" else names[call.action]
                for call in api.calls(*names)
                if call.answered == 200
            ],
        )


@contextmanager
def on_gcp(agent: Agent, action: Verb) -> Iterator[Rented]:
    """Compute Engine; a machine with a GPU is not suspended."""
    machine = gcp.Machine(looks_while_ending=LOOKS)
    if action == "hibernate":
        machine.gpus, machine.type = {}, "n2-standard-8"
    with gcp.MetadataServer(machine) as metadata, gcp.ComputeApi(machine) as api:
        _, procfs = gcp.firmware(agent.folder, machine)
        place(agent, Path(procfs), metadata_endpoint=metadata.url, api_endpoint=api.url)
        names = {"stop": "stop", "delete": "terminate", "suspend": "hibernate"}
        yield Rented(machine.name, lambda: [names[effect] for effect in api.effects])


@contextmanager
def on_azure(agent: Agent, action: Verb) -> Iterator[Rented]:
    """The Resource Manager; some sizes hibernate, where that was enabled."""
    world = azure.World(settles=5.0)
    if action == "hibernate":
        world.size, world.hibernation = "Standard_NV6ads_A10_v5", True
    with azure.FakeAzure(world, faster=RATE) as here:
        for file in ("sys_vendor", "product_name", "chassis_asset_tag"):
            target = agent.folder / "sys/class/dmi/id" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text((Path(here.folder) / "sys/class/dmi/id" / file).read_text())
        section = {name: here.settings[name] for name in ("metadata_endpoint", "api_endpoint")}
        place(agent, Path(here.folder) / "proc", **section)
        agent.environment |= here.environ
        stopped = "hibernate" if action == "hibernate" else "stop"
        yield Rented(
            world.id,
            lambda: [
                "terminate" if one.operation == "delete" else stopped for one in here.sent("deallocate", "delete")
            ],
        )


@contextmanager
def somewhere_else() -> Iterator[str]:
    """Where a record outlives the machine: nothing is terminated without one."""

    class Reads(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.read()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Reads) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


CLOUDS: dict[str, Callable[[Agent, Verb], AbstractContextManager[Rented]]] = {
    "aws": on_aws, "gcp": on_gcp, "azure": on_azure,
}  # fmt: skip
GCLOUD = f"gcloud compute instances {{verb}} {ID} --zone us-central1-a --project ml-project"
TOLD: dict[tuple[str, Verb], str] = {
    ("aws", "stop"): f"aws ec2 start-instances --region us-east-1 --instance-ids {ID}",
    ("aws", "hibernate"): f"aws ec2 start-instances --region us-east-1 --instance-ids {ID}",
    ("gcp", "stop"): GCLOUD.format(verb="start", id=ID),
    ("gcp", "hibernate"): GCLOUD.format(verb="resume", id=ID),
    ("azure", "stop"): f"az vm start --ids {ID}",
    ("azure", "hibernate"): f"az vm start --ids {ID}",
    **{(cloud, "terminate"): "" for cloud in CLOUDS},
}
"""By cloud and action: the command that people read; empty: that there is none."""


def test_the_table_has_every_action_of_every_cloud() -> None:
    """A plug-in that is registered, or an action that a cloud learns, needs its rows."""
    registered = {point.name for point in entry_points(group="costguard.providers")}
    assert set(TOLD) == {(cloud, action) for cloud in registered for action in get_args(Verb)}


@pytest.mark.parametrize(("cloud", "action"), sorted(TOLD))
def test_who_is_too_late_reads_what_is_true_of_this_action_in_this_cloud(
    quick: Agent,  # noqa: F811 - the fixture
    cloud: str,
    action: Verb,
) -> None:
    """While the machine goes, and once it is off: 3, that it is too late, and the one command that brings it back, if one does."""
    quick.hurry(RATE)
    with CLOUDS[cloud](quick, action) as rented, somewhere_else() as sink:
        settings = [one for one in SETTINGS if not one.startswith("kill_action")]
        quick.start(
            *settings, f"kill_action={action}", f"sink.syslog={sink}", "deadline.lifetime=24h", enough=bool,
        )  # fmt: skip
        asks = (("hold", "2h"), ("hold", "--past-deadline", "2h"))
        _goes(quick, {"ACTING", "CONFIRMING"})
        said = [quick.ask(*ask) for ask in asks]
        assert not {quick.report()["phase"]} & {"WATCHING", "WARNING"}
        _goes(quick, {"acted"})
        said += [quick.ask(*ask) for ask in asks]
        assert rented.asked() == [action]
        command = TOLD[cloud, action].format(id=rented.id)
        hint = f"once it is off, start it again from elsewhere: {command}" if command else DELETED
        for one in said:
            error, _, advice = one.stderr.strip().partition("\nhint: ")
            assert (one.returncode, advice) == (3, hint), one
            assert error.startswith("error: too late: the ")
        assert quick.report()["holds"] == []


def _goes(agent: Agent, words: set[str]) -> dict[str, Any]:
    return agent.until(lambda report: bool(words & {report["phase"], report["done"]}), PATIENCE)
