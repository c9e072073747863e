"""Which pod this is: what Kubernetes gives to a container, and what agrees."""

from pathlib import Path

import pytest

from costguard.cloud.api import Ticket
from costguard.tasks.api import Place, SchedulerError
from costguard_kubernetes import Kubernetes
from costguard_kubernetes.identity import pod_of
from tests.schedulers.kubernetes.conftest import job
from tests.schedulers.kubernetes.standin import NAMESPACE, POD, Cluster

UID = "12345678-1234-1234-1234-123456789abc"
OTHER = "87654321-1234-1234-1234-123456789abc"


def group(procfs: Path, pid: str, line: str) -> None:
    (procfs / pid).mkdir(parents=True, exist_ok=True)
    (procfs / pid / "cgroup").write_text(line + "\n")


def place(cluster: Cluster, procfs: str = "/nowhere", **environ: str) -> Place:
    own = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.port)}
    return Place(own | environ, {"service_account": str(cluster.folder)}, procfs)


def test_the_downward_api_names_the_pod(cluster: Cluster) -> None:
    """With the namespace of the service account."""
    found = Kubernetes().identify(place(cluster, POD_NAME=POD, POD_UID=UID))
    assert (found.id, found.words) == (f"{NAMESPACE}/{POD}", f"pod {NAMESPACE}/{POD}")
    assert found.details == {"namespace": NAMESPACE, "pod": POD, "uid": UID, "run": UID}
    assert found.evidence == (f"downward API: {POD} {UID}", f"service account: {NAMESPACE}")


def test_a_token_names_the_pod_that_it_was_made_for(cluster: Cluster) -> None:
    """Without anything that its author has to write; nothing else of the token is kept."""
    cluster.rotate({"namespace": NAMESPACE, "pod": {"name": POD, "uid": UID}})
    found = Kubernetes().identify(place(cluster))
    assert found.details == {"namespace": NAMESPACE, "pod": POD, "uid": UID, "run": UID}
    assert not any(part in repr(found) for part in cluster.token.split("."))


def test_the_control_group_names_the_pod_too(cluster: Cluster, tmp_path: Path) -> None:
    """Both drivers of control groups, and another kind of group that is none."""
    uid = UID.replace("-", "_")
    group(tmp_path, "1", f"11:memory:/kubepods/burstable/pod{UID}/3f1c")
    group(
        tmp_path,
        "2",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-3f.scope",
    )
    group(tmp_path, "3", "0::/../cri-containerd-77.scope")
    group(tmp_path, "4", f"0::/user.slice/pod{UID}/x")
    assert [pod_of(str(tmp_path), pid) for pid in "12345"] == [UID, UID, "", "", ""]
    group(tmp_path, "self", f"0::/kubepods/pod{UID}/3f1c")
    group(tmp_path, "9", f"0::/kubepods/pod{OTHER}/3f1c")
    where = place(cluster, str(tmp_path), POD_NAME=POD)
    task = Kubernetes().identify(where)
    assert task.details["uid"] == UID
    assert [Kubernetes().belongs(where, task, pid) for pid in (1, 9, 3, 77)] == [True, False, None, None]


@pytest.mark.parametrize(
    "environ",
    [{"POD_NAME": "another"}, {"POD_NAMESPACE": "another"}, {"POD_UID": OTHER}],
    ids=lambda one: next(iter(one)),
)
def test_two_facts_that_do_not_agree_name_no_pod(cluster: Cluster, environ: dict[str, str]) -> None:
    """A manifest that was copied names another pod than the token: then nobody knows whose GPUs are seen."""
    cluster.rotate({"namespace": NAMESPACE, "pod": {"name": POD, "uid": UID}})
    with pytest.raises(SchedulerError, match="disagree") as changed:
        Kubernetes().identify(place(cluster, **environ))
    assert changed.value.trouble == "changed"


@pytest.mark.parametrize("name", ["", "../x", "A", "a b", "a/b", "x" * 300])
def test_what_can_be_no_name_names_no_pod(cluster: Cluster, name: str) -> None:
    """Whatever stands in a variable goes into no request."""
    if name:
        with pytest.raises(SchedulerError, match="not the name of a pod"):
            Kubernetes().identify(place(cluster, POD_NAME=name))
    (cluster.folder / "namespace").write_text(name)
    with pytest.raises(SchedulerError, match="namespace"):
        Kubernetes().identify(place(cluster, POD_NAME="train"))


def test_the_name_of_the_host_has_to_be_proven(cluster: Cluster) -> None:
    """It may be that of another pod of the namespace: the address from which the server was asked must be the pod's."""
    job(cluster)
    where = place(cluster, HOSTNAME=POD)
    task = Kubernetes().identify(where)
    assert task.id == f"{NAMESPACE}/{POD}"
    with pytest.raises(SchedulerError, match="another address") as unproven:
        Kubernetes().open(where, task).look(5.0)
    assert (unproven.value.trouble, "POD_UID" in unproven.value.hint) == ("changed", True)
    cluster.get("", "pods", POD)["status"]["podIPs"].append({"ip": "127.0.0.1"})
    assert Kubernetes().open(where, task).look(5.0).state == "running"
    elsewhere = place(cluster, HOSTNAME="node7")
    with pytest.raises(SchedulerError, match="knows no pod ml/node7"):
        Kubernetes().open(elsewhere, Kubernetes().identify(elsewhere)).look(5.0)


def test_a_pod_of_the_same_name_is_another_one(cluster: Cluster) -> None:
    """A StatefulSet gives the name again: what this guard was started in has ended then."""
    job(cluster)
    where = place(cluster, POD_NAME=POD, POD_UID=OTHER)
    opened = Kubernetes().open(where, Kubernetes().identify(where))
    assert opened.look(5.0).state == "ended"
    assert opened.confirm(Ticket("i", "a", 5.0), None).status == "done"


def test_outside_of_kubernetes_there_is_no_pod(cluster: Cluster) -> None:
    """A node of it is none."""
    where = Place({"HOSTNAME": POD}, {"service_account": str(cluster.folder)}, "/nowhere")
    assert not Kubernetes().recognises(where)
    with pytest.raises(SchedulerError, match="KUBERNETES_SERVICE_HOST"):
        Kubernetes().identify(where)
