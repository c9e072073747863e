"""Which machine this is: two facts must agree, and nobody is asked without a reason."""

import pytest

from costguard.cloud.api import CloudError, start_command
from costguard_azure import Azure
from costguard_azure.testing import FakeAzure, ScaleSet

VM_ID = "8f3a1c52-0b7d-4f5e-9c66-2d1e0a9b8c7d"
SWAPPED = "521C3A8F-7D0B-5E4F-9C66-2D1E0A9B8C7D"


def test_firmware_and_metadata(azure: FakeAzure) -> None:
    """What the plug-in needs later, and the facts that agreed."""
    who = Azure().identify(azure.site())
    assert (who.cloud, who.instance, who.region, who.type, who.market) == (
        *("Azure", VM_ID, "eastus", "Standard_NC4as_T4_v3", "on-demand"),
    )
    assert who.details["resource_id"] == azure.world.id
    assert all(isinstance(value, str) for value in who.details.values())
    assert len(who.evidence) == 2


@pytest.mark.parametrize("uuid", [VM_ID, VM_ID.upper(), SWAPPED])
def test_the_product_uuid_agrees(azure: FakeAzure, uuid: str) -> None:
    """In both byte orders, where root may read it."""
    site = azure.site()
    who = Azure().identify(site._replace(dmi={**site.dmi, "product_uuid": uuid}))
    assert len(who.evidence) == 3


def test_the_product_uuid_disagrees(azure: FakeAzure) -> None:
    """Somebody else's metadata: a veto."""
    site = azure.site()
    with pytest.raises(CloudError) as caught:
        Azure().identify(site._replace(dmi={**site.dmi, "product_uuid": "00000000-0000-4000-8000-00000000beef"}))
    assert caught.value.trouble == "changed"
    assert not caught.value.technical


def test_another_cloud_is_not_probed(azure: FakeAzure) -> None:
    """The firmware decides whether the metadata service is asked, unless somebody names its address or the cloud."""
    plain = azure.site()._replace(settings={}, dmi={"sys_vendor": "Microsoft Corporation"})
    with pytest.raises(CloudError, match="does not say Azure"):
        Azure().identify(plain)
    assert azure.log == []
    named = plain._replace(environ={"COSTGUARD_AZURE_METADATA_ENDPOINT": str(azure.settings["metadata_endpoint"])})
    assert Azure().identify(named).evidence[0] == "the configuration says Azure"


@pytest.mark.parametrize(
    "dmi",
    [
        {"sys_vendor": "Amazon EC2", "product_name": "g5.xlarge"},
        {"sys_vendor": "QEMU", "product_name": "Standard PC (Q35 + ICH9, 2009)"},
        {"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "1234-5678"},
    ],
)
def test_foreign_firmware_is_never_overruled(azure: FakeAzure, dmi: dict[str, str]) -> None:
    """A guest inside an Azure machine reaches that machine's metadata. It must not stop its host."""
    with pytest.raises(CloudError) as caught:
        Azure().identify(azure.site(provider="azure")._replace(dmi=dmi))
    assert (caught.value.trouble, caught.value.technical) == ("changed", False)
    assert caught.value.hint
    assert azure.log == []


def test_metadata_may_be_forbidden(azure: FakeAzure) -> None:
    """Then nobody can say which machine this is."""
    with pytest.raises(CloudError) as caught:
        Azure().identify(azure.site(metadata="never"))
    assert caught.value.trouble == "refused"
    assert azure.log == []


@pytest.mark.parametrize(
    ("priority", "host", "market"),
    [
        ("Regular", "", "on-demand"),
        ("", "", "on-demand"),
        ("Spot", "", "spot"),
        ("Low", "", "spot"),
        ("", "/h", "reserved"),
    ],
)
def test_the_market(azure: FakeAzure, priority: str, host: str, market: str) -> None:
    """A missing scalar is an empty text."""
    azure.world.priority, azure.world.host = priority, host
    assert Azure().identify(azure.site()).market == market


def test_a_member_of_a_uniform_scale_set(azure: FakeAzure) -> None:
    """Its resource is an instance of the set."""
    azure.world.scale_set = ScaleSet(uniform=True)
    details = Azure().identify(azure.site()).details
    assert details["resource_id"].endswith("/virtualMachineScaleSets/gpus/virtualMachines/0")
    assert details["scale_set"] == "gpus"


def test_recognises() -> None:
    """The vendor alone is any Hyper-V."""
    assert Azure().recognises({"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"})
    assert not Azure().recognises({"sys_vendor": "Microsoft Corporation"})


def test_the_command_that_starts_it_again_names_this_machine(azure: FakeAzure) -> None:
    """As the Azure CLI takes it; an instance of a uniform scale set has a number in it."""
    who = Azure().identify(azure.site())
    assert start_command(Azure(), who) == f"az vm start --ids {azure.world.id}"
    group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/trainers"
    inside = who._replace(details={**who.details, "resource_id": f"{group}/virtualMachines/7"})
    assert start_command(Azure(), inside) == f"az vmss start --ids {group} --instance-ids 7"
