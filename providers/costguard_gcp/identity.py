"""Which machine this is: the firmware and the metadata server have to agree."""

import os
from collections.abc import Mapping
from typing import Any

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Identity, Site
from costguard.files import text_of
from costguard_gcp import prices
from costguard_gcp.firmware import PRODUCTS
from costguard_gcp.metadata import Metadata


def identify(site: Site) -> Identity:
    """Ask the metadata server, and compare with a fact that does not come from it. Raises CloudError.

    The second fact is the firmware's product name; where a container hides the firmware and the
    configuration names this plug-in, it is the kernel's host name.
    """
    product = site.dmi.get("product_name", "")
    if product and product not in PRODUCTS:  # asked before the network: never probe another cloud's address
        text = f"the firmware says `{product}`, which is not Google Cloud: the machine is not touched"
        raise CloudError("changed", text, code="not_this_machine", hint=hints.PROVIDER)
    if not product and site.settings.get("provider", "auto") == "auto":
        text = "the firmware does not say Google Cloud, so the metadata server is not asked"
        raise CloudError(
            "changed", text, code="not_this_machine", hint='if it is Google Cloud, set cloud.provider = "gcp"'
        )
    metadata = Metadata(site)
    tree = metadata.tree("instance/")
    project = metadata.text("project/project-id") or ""
    instance, zone, name = str(tree.get("id") or ""), last(tree.get("zone")), str(tree.get("name") or "")
    if not (instance.isdecimal() and project and zone and name):
        raise CloudError(
            "internal", "the metadata server does not say which machine this is", code="garbage", hint=hints.METADATA
        )
    evidence = f"firmware: product name `{product}`" if product else _same_host_name(site, tree)
    machine_type = last(tree.get("machineType"))
    return Identity(
        cloud="gcp",
        instance=instance,
        region=zone.rpartition("-")[0],
        zone=zone,
        type=machine_type,
        market=_market(tree),
        details={
            "project": project,
            "name": name,
            "resource": f"projects/{project}/zones/{zone}/instances/{name}",
            "gpu": prices.attached_gpus(site.sysfs) if machine_type.startswith("n1-") else "",
        },
        evidence=(evidence, f"metadata server: instance {instance} `{name}` of project {project} in {zone}"),
    )


def last(path: object) -> str:
    """The last part of a resource path such as ``projects/1/zones/us-central1-a``."""
    return str(path or "").rpartition("/")[2]


def _market(tree: Mapping[str, Any]) -> str:
    """Whether the machine may be preempted; a reservation does not show in the metadata."""
    scheduling = tree.get("scheduling")
    preemptible = scheduling.get("preemptible") if isinstance(scheduling, dict) else None
    return {"TRUE": "spot", "FALSE": "on-demand"}.get(str(preemptible).upper(), "")


def _same_host_name(site: Site, tree: Mapping[str, Any]) -> str:
    mine = text_of(os.path.join(site.procfs, "sys/kernel/hostname")).strip().partition(".")[0]
    known = {str(tree.get(key) or "").partition(".")[0] for key in ("name", "hostname")}
    if not mine or mine not in known:
        text = f"the metadata server says `{tree.get('name')}`, the kernel's host name is `{mine}`: neither is touched"
        raise CloudError("changed", text, code="not_this_machine", hint="run costguard on the machine itself")
    return f"kernel: host name `{mine}`"
