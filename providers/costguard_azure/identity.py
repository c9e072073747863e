"""Which machine this is: the firmware and the metadata service must agree.

Sources: cloud-init's ``ds-identify`` (the asset tag); Azure documentation "Azure Instance Metadata Service"
(``vmId``) and "Accessing and Using Azure VM Unique ID" (``vmId`` is the firmware's product UUID; older
firmware gives its first three groups in the other byte order).
"""

from collections.abc import Mapping
from typing import Any

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Identity, Site
from costguard_azure import metadata, resource
from costguard_azure.firmware import recognises


def identify(site: Site) -> Identity:
    """Ask the metadata service, and compare. Raises CloudError."""
    evidence = [_first_fact(site)]
    if site.settings.get("metadata") == "never":
        raise CloudError("refused", hints.NO_METADATA, code="metadata_never", hint='set cloud.metadata = "auto"')
    found = metadata.compute(site)
    vm_id = _text(found, "vmId").lower()
    evidence.append(f"metadata service: vmId {vm_id}")
    uuid = site.dmi.get("product_uuid", "").strip().lower()
    if uuid and vm_id not in {uuid, _swapped(uuid)}:
        text = f"the firmware says {uuid}, the metadata service says {vm_id}: neither is touched"
        raise CloudError("changed", text, code="vmId", hint=hints.METADATA)
    if uuid:
        evidence.append(f"firmware: product UUID {uuid}")
    details = _details(found, vm_id)
    return Identity(
        cloud="Azure",
        instance=vm_id,
        region=_text(found, "location"),
        zone=_text(found, "zone"),
        type=_text(found, "vmSize"),
        market=_market(found),
        details=details,
        evidence=tuple(evidence),
    )


def _first_fact(site: Site) -> str:
    """What says Azure without the network: the firmware, or a person. Raises CloudError when nothing does."""
    if recognises(site.dmi):
        return "firmware: Azure's chassis asset tag"
    tag, vendor = site.dmi.get("chassis_asset_tag", ""), site.dmi.get("sys_vendor", "")
    if tag or vendor not in {"", "Microsoft Corporation"}:  # a guest inside an Azure machine reaches its host's service
        text = f"the firmware says `{vendor or tag}`, which is not Azure: the machine is not touched"
        raise CloudError("changed", text, code="chassis_asset_tag", hint=hints.PROVIDER)
    if "azure" in str(site.settings.get("provider")).lower() or metadata.replaced(site):
        return "the configuration says Azure"
    text = "the firmware does not say Azure, so the metadata service is not asked"
    raise CloudError("changed", text, code="chassis_asset_tag", hint='if it is Azure, set cloud.provider = "azure"')


def _details(found: Mapping[str, Any], vm_id: str) -> dict[str, str]:
    """What the plug-in needs later, as text."""
    group, name = _text(found, "resourceGroupName"), _text(found, "name")
    fallback = (
        f"/subscriptions/{_text(found, 'subscriptionId')}/resourceGroups/{group}"
        f"/providers/Microsoft.Compute/virtualMachines/{name}"
    )
    machine = resource.parse(_text(found, "resourceId") or fallback)
    if machine is None or not vm_id:
        text = "the metadata service does not say which resource this machine is"
        raise CloudError("internal", text, code="resourceId", hint=f"wait a minute, {hints.THEN_DOCTOR}")
    return {
        "resource_id": machine.id,
        "vm_id": vm_id,
        "name": name,
        "environment": _text(found, "azEnvironment") or resource.PUBLIC,
        "scale_set": _text(found, "vmScaleSetName") or machine.scale_set,
        "temp_disk_kb": _text(found, "storageProfile", "resourceDisk", "size"),
    }


def _market(found: Mapping[str, Any]) -> str:
    """Spot machines always say so; a machine on a dedicated host is paid for with its host."""
    if _text(found, "priority").lower() in {"spot", "low"}:
        return "spot"
    return "reserved" if _text(found, "host", "id") else "on-demand"


def _text(found: Any, *path: str) -> str:
    """A scalar of the document as text; every missing one is empty. A number counts, true and false do not."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _swapped(uuid: str) -> str:
    """The same UUID with its first three groups in the other byte order."""
    groups = uuid.split("-")
    turned = ["".join(reversed([part[i : i + 2] for i in range(0, len(part), 2)])) for part in groups[:3]]
    return "-".join((*turned, *groups[3:]))
