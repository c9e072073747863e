"""The rights: what the code declares, what the Role grants, and what requests were really made."""

import yaml

from costguard.cloud.api import Ticket
from costguard_kubernetes import Kubernetes
from costguard_kubernetes.permissions import RIGHTS, role
from tests.schedulers.kubernetes.conftest import WORKLOADS
from tests.schedulers.kubernetes.standin import Cluster, rights_of
from tests.schedulers.kubernetes.test_pod import ended, session

DECLARED = {(one.verb, one.resource, one.group) for one in RIGHTS}


def test_the_role_grants_exactly_what_the_code_declares() -> None:
    """Verb by verb: no right too many, none too few, none by a wildcard."""
    assert rights_of(role()) == DECLARED
    assert len(RIGHTS) == len(DECLARED)
    assert "*" not in role()


def test_the_role_is_bound_in_its_own_namespace() -> None:
    """One Role, one binding, of no cluster-wide kind."""
    made, binding = yaml.safe_load_all(role())
    assert (made["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", made["metadata"]["name"])
    assert [one["kind"] for one in binding["subjects"]] == ["ServiceAccount"]


def test_no_right_deletes_anything() -> None:
    """A pod is evicted, and its budget asked; whole objects are never replaced, nor their templates of other things."""
    assert {one.verb for one in RIGHTS} == {"get", "list", "create", "patch"}
    assert ("create", "pods/eviction", "") in DECLARED


def test_every_right_is_used_and_no_other(cluster: Cluster) -> None:
    """All kinds of owners, looked at, ended and told, need exactly the declared rights."""
    used = set()
    for workload in WORKLOADS:
        cluster.objects.clear()
        workload(cluster)
        session(cluster).tell("idle", 5.0)
        assert session(cluster).confirm(Ticket("i", "a", 5.0), ended(cluster)).status == "pending"
        used |= set(cluster.asked)
    assert used == DECLARED


def test_people_read_every_right_with_its_reason() -> None:
    """Also in `costguard permissions`."""
    assert [one.name for one in Kubernetes().permissions()] == [one.name for one in RIGHTS]
