"""Every cell of the table, from the stand-ins through the SDK to the plan."""

import os

import pytest

from costguard_azure import Azure
from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure, World
from tests.clouds.azure.cells import CELLS, Cell


def test_the_table_is_large_and_varied() -> None:
    """Forty cells; each one names a fact; many distinct pairs of verdict and code."""
    pairs = {(cell.verdict, code) for cell in CELLS.values() for code in cell.codes}
    assert len(CELLS) >= 40
    assert len(pairs) >= 28
    assert all(cell.fact for cell in CELLS.values())


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_cell(cell: Cell) -> None:
    """The verdict, the codes, and words with each finding; nothing but questions is sent."""
    with FakeAzure(World(**cell.world)) as azure:
        if cell.disk:
            device, point, files = cell.disk
            azure.local_disk(device)
            if point:
                azure.mount(f"{device}p1" if device[-1].isdigit() else f"{device}1", point)
            for name in files:
                path = os.path.join(azure.folder, "proc/1/root", point.lstrip("/"), name)
                if name == "lost+found":
                    os.mkdir(path)
                else:
                    open(path, "x", encoding="ascii").close()
        site = azure.site(**cell.settings)
        for operation in cell.faults:
            azure.faults.add(operation, "throttle", times=9, seconds=60)
        machine = AzureMachine(site, Azure().identify(site))
        plan = machine.plan(cell.verb, machine.facts(cell.verb))
        machine.close()
        assert (plan.verdict, tuple(sorted({finding.code for finding in plan.findings}))) == (
            cell.verdict,
            tuple(sorted(cell.codes)),
        )
        assert all(len(finding.text) > 20 for finding in plan.findings)
        assert all(
            finding.hint
            for finding in plan.findings
            if plan.verdict in {"refuse", "failed"} and finding.code not in SELF_EVIDENT
        )
        promised = "bill_ends" in {finding.code for finding in plan.findings}
        assert plan.may_act or not (promised or plan.ends_bill), "what is not done ends no bill"
        assert {entry.method for entry in azure.log} == {"GET"}


SELF_EVIDENT = {"bill_ends", "ends_already", "disks_go_on", "spot_may_not_return"}
"""They say what is so; there is nothing to do about it."""
