"""The contract of cloud plug-ins, over every one that is registered."""

import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points

import pytest

from costguard.actions.provider import Consequence, Provider, load

REGISTERED = sorted(entry_points(group="costguard.providers"))

FOREIGN = [  # no plug-in of this project may claim these; sources: `dmidecode` output of such machines
    {},
    {"sys_vendor": "QEMU", "product_name": "Standard PC (Q35 + ICH9, 2009)"},
    {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
    {"sys_vendor": "Dell Inc.", "product_name": "PowerEdge XE9680"},
    {"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova"},
    {"chassis_asset_tag": "OracleCloud.com"},
    {"hypervisor_uuid": "ec2e1916-9099-7caf-fd21-012345abcdef"},
    {"sys_vendor": "Google", "product_name": "Kindred"},
]
OWN = {
    "aws": [
        {"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"},
        {"sys_vendor": "Xen", "bios_version": "4.11.amazon", "hypervisor_uuid": "ec2e1916-9099-7caf-fd21-012345abcdef"},
    ],
    "gcp": [{"sys_vendor": "Google", "product_name": "Google Compute Engine"}],
    "azure": [{"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}],
}


@pytest.fixture(params=REGISTERED, ids=lambda point: point.name)
def point(request: pytest.FixtureRequest) -> EntryPoint:
    found: EntryPoint = request.param
    return found


@pytest.fixture
def provider(point: EntryPoint) -> Provider:
    loaded = load([point.value])
    assert loaded.failures == ()
    return loaded.providers[0]


def test_the_clouds_of_this_project_are_registered() -> None:
    """Otherwise the tests below would pass over nothing."""
    assert {point.name for point in REGISTERED} >= set(OWN)


def test_the_module_name_alone_is_enough(point: EntryPoint, provider: Provider) -> None:
    """The guard hands module names to its workers."""
    loaded = load([point.value.partition(":")[0]])
    assert [type(found) for found in loaded.providers] == [type(provider)]


def test_it_recognises_its_own_machines_only(point: EntryPoint, provider: Provider) -> None:
    """A machine that two plug-ins claim has an unknown bill; an empty identity is nobody's."""
    for name, machines in OWN.items():
        for dmi in machines:
            assert provider.recognises(dmi) is (name == point.name), dmi
    for dmi in FOREIGN:
        assert provider.recognises(dmi) is False, dmi


def test_it_says_what_a_shutdown_does(provider: Provider) -> None:
    """Three-valued answers with words; a bill that goes on has a way out."""
    answer = provider.guest_shutdown()
    assert isinstance(answer, Consequence)
    assert {answer.ends_bill, answer.keeps_disks} <= {True, False, None}
    assert len(answer.text) > 20
    assert provider.name
    assert answer.hint or answer.ends_bill
    assert answer.hint or answer.keeps_disks


def test_importing_it_is_cheap(point: EntryPoint) -> None:
    """An SDK costs 50 to 150 MB; the plan of a guest action must not pay for it."""
    module = point.value.partition(":")[0]
    heavy = "{'boto3', 'botocore', 'google', 'azure', 'requests', 'urllib3', 'http', 'ssl'}"
    program = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
