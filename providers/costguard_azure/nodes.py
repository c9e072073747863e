"""Which scheduler or service a machine belongs to, by its tags, its resource group and its scale set.

Sources: AKS documentation "FAQ" (group ``MC_…``, or another one with tags ``aks-managed-…`` and scale sets
``aks-…-vmss``; changes of nodes are not supported); Azure Databricks documentation "Monitor usage using tags" (``Vendor``);
CycleCloud documentation "Tag nodes"; Batch documentation (group ``azurebatch-…`` for pools in the user's subscription);
OpenShift, cluster API and Karpenter (tags of their nodes); SkyPilot, ``provision/constants.py``.
"""

from collections.abc import Mapping

from costguard.cloud.managed import by_tags

_AKS = "Azure Kubernetes Service"
_TAGS = {  # in lower case: Azure compares names so
    "cyclecloudcluster": "CycleCloud",
    "cyclecloudnodearray": "CycleCloud",
    "cycleowner": "CycleCloud",
    "skypilot-vm-id": "SkyPilot",
}
_PREFIXES = {
    "aks-managed-": _AKS,
    "karpenter.": _AKS,
    "kubernetes.io_cluster": "Kubernetes",
    "sigs.k8s.io_cluster-api-provider-azure": "Kubernetes",
}
_VALUES = {("vendor", "databricks"): "Azure Databricks"}
_TOGETHER = ({"clusterid", "clustername"}, "CycleCloud")  # of its older versions; each alone is anybody's word
POWER_DOWN = {
    _AKS: "scale it there: `az aks nodepool scale` or `az aks nodepool stop`",
    "CycleCloud": "let its autoscaler end the idle node, or end it in CycleCloud: `cyclecloud terminate_node CLUSTER NODE`",
    "Azure Batch": "resize the pool, or set an autoscale formula: `az batch pool resize`",
}
"""How services of Azure end their idle nodes themselves."""


def owner(tags: Mapping[str, str], group: str, scale_set: str) -> tuple[str, str] | None:
    """The scheduler and what shows it; the most telling one first."""
    if group.upper().startswith("MC_"):
        return _AKS, f"resource group {group}"
    if scale_set.lower().startswith("aks-") and scale_set.lower().endswith("-vmss"):
        return _AKS, f"scale set {scale_set}"
    if group.lower().startswith("azurebatch-") or "-azurebatch-" in scale_set.lower():
        return "Azure Batch", f"resource group {group}"
    lowered = {name.lower(): value for name, value in tags.items()}
    names, engine = _TOGETHER
    together = (engine, f"tags {' and '.join(sorted(names))}") if names <= set(lowered) else None
    return by_tags(lowered, _TAGS, _PREFIXES, _VALUES) or together
