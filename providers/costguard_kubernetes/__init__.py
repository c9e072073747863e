"""Kubernetes: what owns the pod in which costguard runs is suspended or scaled to zero; a pod that nothing owns is evicted.

What it knows of the API is from Kubernetes' API reference and conventions, and from those of JobSet, LeaderWorkerSet and Kubeflow.
"""

from costguard.cloud.api import Permission, Setting
from costguard.tasks.api import Place, Session, Task
from costguard_kubernetes import identity, permissions


class Kubernetes:
    """See `costguard.tasks.api.Scheduler`."""

    name = "Kubernetes"
    tells = True
    recognises = staticmethod(identity.in_a_pod)
    identify = staticmethod(identity.identify)
    policy = staticmethod(permissions.role)
    settings = (
        Setting(
            "service_account",
            "The folder with `token`, `ca.crt` and `namespace` of the service account. Empty: where Kubernetes puts it.",
            "",
            "/var/run/secrets/costguard",
            "an absolute path, or nothing",
            "file",
        ),
    )

    def belongs(self, place: Place, task: Task, pid: int) -> bool | None:
        """By the pod's id in its control group; in a pod with a view of its own nobody knows."""
        uid, own = identity.pod_of(place.procfs, str(pid)), task.details.get("uid", "")
        return uid == own if uid and own else None

    def open(self, place: Place, task: Task) -> Session:
        """Nothing is asked yet."""
        from costguard_kubernetes.session import PodSession

        return PodSession(place, task)

    def permissions(self) -> tuple[Permission, ...]:
        """For every kind of owner; which of them a pod needs depends on its own."""
        return tuple(Permission(right.name, right.why, right.needed) for right in permissions.RIGHTS)

    def commands(self) -> str:
        """How to apply it."""
        return permissions.COMMANDS


PROVIDER = Kubernetes
