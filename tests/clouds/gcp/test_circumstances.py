"""What a plan says in each circumstance, from the stand-ins through the real SDK."""

import copy
import pathlib

import pytest

from costguard.actions.base import Context
from costguard.actions.shutdown import Shutdown
from costguard.cloud.access import HostPaths
from costguard.plans import Plan
from costguard_gcp import facts as looks
from costguard_gcp.testing import Machine
from tests.clouds.gcp.cells import CELLS, Cell
from tests.clouds.gcp.conftest import World, world_of


def planned(cell: Cell, folder: pathlib.Path) -> tuple[Plan, World]:
    machine = Machine(**copy.deepcopy(cell.machine))
    with world_of(machine, folder, granted=cell.granted, on_project=cell.on_project) as world:
        world.settings.update(cell.settings)
        world.api.faults.extend(cell.faults)
        session = world.open()
        return session.plan(cell.verb, session.facts(cell.verb)), world


@pytest.mark.parametrize("name", CELLS)
def test_the_verdict_and_the_codes_of_a_circumstance(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning has no effect, in none of the circumstances."""
    monkeypatch.setattr(looks, "BUDGET_SECONDS", 3.0)  # for what fails as long as it is asked
    cell = CELLS[name]
    decided, world = planned(cell, tmp_path)
    assert (decided.verdict, tuple(finding.code for finding in decided.findings)) == (cell.verdict, cell.codes)
    assert decided.action == cell.verb
    assert decided.may_act or not ("bill_ends" in cell.codes or decided.ends_bill), "what is not done ends no bill"
    assert world.api.effects == []
    for finding in decided.findings:
        assert len(finding.text) > 25
        assert finding.hint or finding.code in {"bill_ends", "loses_disks", "disks_go_on"} | QUIET, finding


QUIET = {"ends_already", "local_data_lost", "run_limit", "spot_may_not_return", "group_member", "managed_node"}
"""Findings that only tell; a group member is refused with a hint, and left without one."""


def test_the_table_is_wide_enough() -> None:
    """A table that shrinks would pass over nothing."""
    pairs = {(cell.verdict, code) for cell in CELLS.values() for code in cell.codes}
    assert len(CELLS) >= 60
    assert len(pairs) >= 30
    assert {cell.verb for cell in CELLS.values()} == {"stop", "terminate", "hibernate"}


@pytest.mark.parametrize(
    ("name", "ends_bill", "keeps_disks"),
    [
        ("stop", True, True),
        ("terminate", True, False),
        ("terminate-keeps", True, True),
        ("hibernate-plain", True, True),
        ("stop-reserved-act", False, True),
        ("get-denied", None, True),
    ],
)
def test_what_a_plan_promises(name: str, ends_bill: bool | None, keeps_disks: bool, tmp_path: pathlib.Path) -> None:
    """The core shows both, and puts a guest shutdown into the list by them."""
    decided, _ = planned(CELLS[name], tmp_path)
    assert (decided.ends_bill, decided.keeps_disks) == (ends_bill, keeps_disks)


def test_a_missing_right_names_itself_and_the_command(tmp_path: pathlib.Path) -> None:
    """An owner can paste it: nothing is left to fill in."""
    decided, _ = planned(CELLS["stop-denied"], tmp_path)
    finding = decided.findings[0]
    assert "`compute.instances.stop`" in finding.text
    assert (
        "gcloud compute instances add-iam-policy-binding trainer-1 --project=ml-project --zone=us-central1-a"
        in finding.hint
    )
    assert "--member=serviceAccount:trainer@ml-project.iam.gserviceaccount.com" in finding.hint


def test_a_reused_name_is_not_this_machine(tmp_path: pathlib.Path) -> None:
    """The API's numeric id has to be the one of the metadata server."""
    with world_of(Machine(), tmp_path) as world:
        world.api.extra = {"id": "1111111111111111111"}
        session = world.open()
        decided = session.plan("stop", session.facts("stop"))
    assert decided.verdict == "refuse"
    assert decided.findings[0].code == "not_this_machine"


def test_what_cannot_be_seen_of_local_disks_is_in_use(tmp_path: pathlib.Path) -> None:
    """The API shows a local SSD that the kernel does not: nobody can say that it is empty."""
    with world_of(Machine(), tmp_path) as world:
        session = world.open()
        world.machine.local_ssds.append(CELLS["stop-local-blank"].machine["local_ssds"][0])
        facts = session.facts("stop")
        decided = session.plan("stop", facts)
    assert facts.local.state == "unknown"
    assert decided.verdict == "refuse"
    assert decided.findings[0].code == "local_data_kept"


def test_a_graceful_shutdown_delays_the_end_of_the_bill(tmp_path: pathlib.Path) -> None:
    """Up to an hour; people wonder why the bill goes on."""
    cell = CELLS["stop"]._replace(machine={"graceful": 3600})
    decided, _ = planned(cell, tmp_path)
    assert decided.verdict == "go"
    assert "up to 3600 s" in decided.findings[0].text


def test_scopes_are_asked_for_by_themselves_where_the_tree_lacks_them(tmp_path: pathlib.Path) -> None:
    """A metadata server that conceals parts of the tree still answers this path."""
    with world_of(Machine(), tmp_path) as world:
        world.metadata.tree_has_scopes = False
        session = world.open()
        facts = session.facts("stop")
    assert facts.scopes == world.machine.scopes


@pytest.mark.parametrize("settings", [{}, {"managed": "standalone"}, {"metadata": "never"}])
def test_a_guest_action_heeds_what_the_metadata_says_of_a_scheduler(
    settings: dict[str, object], tmp_path: pathlib.Path
) -> None:
    """No API is asked for it, and nothing where the owner forbids to ask."""
    machine = Machine(attributes={"slurm_cluster_name": "c", "slurm_instance_role": "compute"})
    with world_of(machine, tmp_path) as world:
        site = world.site()
        cloud = {"metadata": "auto", "metadata_endpoint": world.metadata.url, **settings}
        host = HostPaths(site.procfs, site.sysfs, stands_for_host=True)
        context = Context("shutdown", cloud=cloud, providers=("gcp=costguard_gcp",), host=host)
        found = Shutdown().plan(Shutdown().facts(context)).findings
        held = [finding for finding in found if finding.code == "managed_node"]
        assert [finding.text.startswith("this machine is a node of Slurm") for finding in held] == (
            [] if "metadata" in settings else [not settings]
        )
        assert world.api.requests == []
