"""The rights that looking, ending and telling need, verb by verb; `role.yaml` grants exactly these, and a test compares the two."""

from importlib import resources
from typing import NamedTuple


class Right(NamedTuple):
    """One verb on one resource, as RBAC spells it; ``resource`` may have a subresource behind its ``/``."""

    verb: str
    resource: str
    group: str
    why: str
    needed: bool = True

    @property
    def name(self) -> str:
        """For people."""
        return spelled(self.verb, self.resource, self.group)


def spelled(verb: str, resource: str, group: str) -> str:
    """A right as people read it: ``patch deployments.apps/scale``."""
    plural, slash, part = resource.partition("/")
    return f"{verb} {plural}{'.' if group else ''}{group}{slash}{part}"


_JOBSET, _LEADER, _KUBEFLOW = "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "kubeflow.org"

RIGHTS = (
    Right("get", "pods", "", "to see this pod, what owns it, and that it ends"),
    Right("list", "pods", "", "to see whether the owner has other pods, whose work cannot be seen from here"),
    Right("create", "pods/eviction", "", "for a pod that nothing owns: to evict it, as disruption budgets allow"),
    Right("get", "jobs", "batch", "for a pod of a Job or JobSet: to look at it"),
    Right("patch", "jobs", "batch", "for a pod of a Job: to suspend it"),
    Right("get", "jobsets", _JOBSET, "for a pod of a JobSet: to look at it"),
    Right("patch", "jobsets", _JOBSET, "for a pod of a JobSet: to suspend it"),
    Right("get", "replicasets", "apps", "for a pod of a Deployment: to find the Deployment"),
    Right("get", "deployments", "apps", "for a pod of a Deployment: to look at it"),
    Right(
        "patch", "deployments/scale", "apps", "for a pod of a Deployment: to scale it to zero, and nothing else of it"
    ),
    Right("get", "statefulsets", "apps", "for a pod of a StatefulSet, LeaderWorkerSet or Notebook: to look at it"),
    Right(
        "patch", "statefulsets/scale", "apps", "for a pod of a StatefulSet: to scale it to zero, and nothing else of it"
    ),
    Right("get", "leaderworkersets", _LEADER, "for a pod of a LeaderWorkerSet: to look at it"),
    Right("patch", "leaderworkersets/scale", _LEADER, "for a pod of a LeaderWorkerSet: to scale it to zero"),
    Right("get", "notebooks", _KUBEFLOW, "for a pod of a Notebook: to look at it"),
    Right("patch", "notebooks", _KUBEFLOW, "for a pod of a Notebook: to mark it as stopped"),
    Right(
        "list",
        "horizontalpodautoscalers",
        "autoscaling",
        "to see whether an autoscaler governs what is scaled to zero",
        False,
    ),
    Right("create", "events", "", "to write messages to the pod's events, where its owner looks", False),
)

COMMANDS = """costguard permissions kubernetes --policy >costguard-role.yaml
# remove the rules that are not for your pod's owner, then
sed -i 's/SERVICE_ACCOUNT/THE_POD_S_OWN/; s/NAMESPACE/ITS_NAMESPACE/' costguard-role.yaml
kubectl apply -n ITS_NAMESPACE -f costguard-role.yaml
"""


def role() -> str:
    """The Role and its RoleBinding, as `kubectl apply` takes them."""
    return resources.files(__package__).joinpath("role.yaml").read_text(encoding="utf-8")
