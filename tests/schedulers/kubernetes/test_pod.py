"""One pod and what owns it: looked at, ended, seen ended, told. The API server is a strict stand-in, over TLS."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from costguard.cloud.api import Ticket
from costguard.plans import Result
from costguard.tasks.api import Place, SchedulerError, TaskFacts
from costguard_kubernetes import Kubernetes
from costguard_kubernetes.session import PodSession
from tests.schedulers.kubernetes.conftest import (
    LABELS,
    SELECTOR,
    WORKLOADS,
    Workload,
    bare,
    deployment,
    job,
    job_set,
    leader_worker_set,
    notebook,
    stateful_set,
    worker_of_a_set,
)
from tests.schedulers.kubernetes.standin import POD, Cluster, PressureError, RefusedError

TICKET = Ticket("i1", "a1", 20.0)


def place(cluster: Cluster, **environ: str) -> Place:
    return Place(cluster.environment(**environ), {"service_account": str(cluster.folder)}, "/nowhere")


def session(cluster: Cluster, **environ: str) -> PodSession:
    where = place(cluster, **environ)
    opened = Kubernetes().open(where, Kubernetes().identify(where))
    assert isinstance(opened, PodSession)
    return opened


def codes(facts: TaskFacts) -> list[tuple[str, str]]:
    return [(verdict, finding.code) for verdict, finding in facts.findings]


def text_of(facts: TaskFacts, code: str) -> str:
    (found,) = [finding.text for _, finding in facts.findings if finding.code == code]
    return found


def ended(cluster: Cluster, before: TaskFacts | None = None) -> Result:
    opened = session(cluster)
    return opened.end(before or opened.look(10.0), TICKET)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.__name__)
def test_the_owner_is_ended_and_the_pod_seen_to_end(cluster: Cluster, workload: Workload) -> None:
    """One change of the topmost owner, which can be undone; the receipt names it. Nothing is ever deleted."""
    workload(cluster)
    facts = session(cluster).look(10.0)
    assert (facts.state, facts.said, facts.gpus, facts.elsewhere) == ("running", "phase Running", 1, "")
    assert codes(facts) == [("consequences", "owner_ends")]
    assert cluster.changes == []
    sent = ended(cluster, facts)
    assert (sent.status, cluster.changes) == ("accepted", [WORKLOADS[workload]])
    assert "train" in sent.proof
    assert cluster.agents[-1] == "costguard (incident i1; attempt a1)"
    seen = session(cluster).confirm(TICKET, sent)
    assert (seen.status, seen.proof) == ("pending", sent.proof)
    del cluster.objects["", "pods", POD]
    gone = session(cluster, POD_UID=cluster_uid(cluster, facts)).confirm(TICKET, sent)
    assert (gone.status, gone.detail.startswith("closed: ")) == ("done", True)
    assert "delete" not in {verb for verb, _, _ in cluster.asked}


def cluster_uid(cluster: Cluster, facts: TaskFacts) -> str:
    """The id of the pod that was looked at."""
    return facts.stamp.split()[0].partition("|")[0]


def test_what_is_done_can_be_undone_and_people_read_how(cluster: Cluster) -> None:
    """The finding has the command; a Job of a schedule is made again by it; emptyDir goes with the pod."""
    job(cluster)
    cluster.get("", "pods", POD)["spec"]["volumes"] = [
        {"name": "scratch", "emptyDir": {}}, {"name": "cache", "ephemeral": {"volumeClaimTemplate": {}}}, {"name": "data"},
    ]  # fmt: skip
    text = text_of(session(cluster).look(10.0), "owner_ends")
    assert """`kubectl patch jobs.batch/train -n ml --type=merge -p '{"spec":{"suspend":false}}'` undoes it""" in text
    assert "what is in scratch (emptyDir), cache (ephemeral) is lost" in text


@pytest.mark.parametrize(
    ("workload", "policy", "refused"),
    [
        (stateful_set, {"whenScaled": "Delete"}, True),
        (stateful_set, {"whenDeleted": "Delete", "whenScaled": "Retain"}, False),
        (stateful_set, None, False),
        (notebook, {"whenScaled": "Delete"}, True),
        (leader_worker_set, {"whenDeleted": "Delete"}, True),
        (leader_worker_set, {"whenDeleted": "Retain", "whenScaled": "Retain"}, False),
    ],
)
def test_volumes_that_would_be_deleted_are_a_veto(
    cluster: Cluster, workload: Workload, policy: dict[str, str] | None, refused: bool
) -> None:
    """What is scaled to zero can go on later: with its data. Who has them deleted is left alone, and told how to keep them."""
    workload(cluster)
    below = cluster.get("apps", "statefulsets", "train")
    below["spec"] |= {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "persistentVolumeClaimRetentionPolicy": policy,
    }
    facts = session(cluster).look(10.0)
    assert codes(facts) == [("refuse", "owner_deletes") if refused else ("consequences", "owner_ends")]
    below["spec"]["volumeClaimTemplates"] = []
    assert codes(session(cluster).look(10.0)) == [("consequences", "owner_ends")]


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (lambda c: job(c, parallelism=4, completions=8), "Job train asks for 4 pods"),
        (lambda c: job_set(c, replicas=2, parallelism=3), "JobSet train asks for 6 pods"),
        (lambda c: deployment(c, replicas=3), "Deployment train asks for 3 pods"),
        (lambda c: stateful_set(c, replicas=2), "StatefulSet train asks for 2 pods"),
        (lambda c: leader_worker_set(c, replicas=2, size=4), "LeaderWorkerSet train asks for 8 pods"),
        (worker_of_a_set, "LeaderWorkerSet train also has the pod train-0"),
    ],
)
def test_an_owner_of_other_pods_is_more_than_what_is_seen(cluster: Cluster, workload: Workload, words: str) -> None:
    """Suspending it would end all of them, also those whose GPUs work: that is for a person to allow."""
    workload(cluster)
    assert session(cluster).look(10.0).elsewhere == words


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
@pytest.mark.parametrize("workload", [job, job_set, deployment, stateful_set, leader_worker_set, notebook])
def test_every_other_pod_of_the_owner_counts(cluster: Cluster, workload: Workload, phase: str) -> None:
    """Also one that does not run yet, and one of which nobody knows; whatever the owner asks for."""
    workload(cluster)
    labels = cluster.get("", "pods", POD)["metadata"]["labels"]
    cluster.pod("another", labels=labels)["status"]["phase"] = phase
    assert "also has the pod another" in session(cluster).look(10.0).elsewhere


def test_pods_that_have_ended_do_not_count(cluster: Cluster) -> None:
    """Nor do those that are being deleted, and those of others."""
    job(cluster, parallelism=1, completions=3)
    for name, phase in (("a", "Succeeded"), ("b", "Failed"), ("c", "Running")):
        cluster.pod(name, labels=LABELS)["status"]["phase"] = phase
    cluster.get("", "pods", "c")["metadata"]["deletionTimestamp"] = "2026-11-23T10:00:00Z"
    cluster.pod("d", labels={"app": "other"})
    assert session(cluster).look(10.0).elsewhere == ""


def test_the_last_pod_of_a_job_is_alone(cluster: Cluster) -> None:
    """What has come to its good end is not started again."""
    job(cluster, parallelism=4, completions=4)["status"] = {"succeeded": 3, "active": 1}
    assert session(cluster).look(10.0).elsewhere == ""


def test_a_pod_that_was_placed_with_others_is_one_of_a_group(cluster: Cluster) -> None:
    """Nothing owns them together, and yet they work together."""
    cluster.pod(labels={"kueue.x-k8s.io/pod-group-name": "ring"})
    assert "group ring" in session(cluster).look(10.0).elsewhere


def test_an_owner_whose_pods_are_not_found_is_unknown(cluster: Cluster) -> None:
    """A selector that misses this very pod may miss others: nothing is concluded from it."""
    job(cluster)
    cluster.get("", "pods", POD)["metadata"]["labels"] = {"app": "changed"}
    with pytest.raises(SchedulerError, match="do not include"):
        session(cluster).look(10.0)


def test_more_pods_than_are_listed_are_other_pods(cluster: Cluster) -> None:
    """A page of a list is enough to know that there are others."""
    deployment(cluster)
    for number in range(220):
        cluster.pod(f"other-{number}", labels=LABELS)
    assert "more" in session(cluster).look(10.0).elsewhere


def test_pods_that_have_ended_hide_none_that_lives(cluster: Cluster) -> None:
    """However many of them an owner has left behind, and however late in the list the one that lives comes."""
    stateful_set(cluster)
    for number in range(230):
        cluster.pod(f"a-{number:03}", labels=LABELS)["status"]["phase"] = "Failed" if number % 2 else "Succeeded"
    assert session(cluster).look(10.0).elsewhere == ""
    cluster.pod("z-lives", labels=LABELS)
    assert session(cluster).look(10.0).elsewhere == "StatefulSet train also has the pod z-lives"


def test_a_page_of_pods_that_are_being_deleted_is_not_all(cluster: Cluster) -> None:
    """What stands on the next one may work."""
    stateful_set(cluster)
    for number in range(60):
        cluster.pod(f"a-{number}", labels=LABELS)["metadata"]["deletionTimestamp"] = "2026-11-23T10:00:00Z"
    assert session(cluster).look(10.0).elsewhere == "StatefulSet train has more than 50 pods"


@pytest.mark.parametrize("workload", [job_set, deployment])
def test_a_version_that_is_not_served_any_more_is_no_end(cluster: Cluster, workload: Workload) -> None:
    """A pod keeps the version in which its owner's controller knew it: the object is found in the one that the server has."""
    made = workload(cluster)
    for one in list(cluster.objects.values()):
        for owner in one["metadata"].get("ownerReferences", ()):
            if owner["name"] == made["metadata"]["name"]:
                owner["apiVersion"] = f"{owner['apiVersion'].partition('/')[0]}/v0"
    facts = session(cluster).look(10.0)
    assert (facts.state, codes(facts)) == ("running", [("consequences", "owner_ends")])
    assert (ended(cluster, facts).status, cluster.changes) == ("accepted", [WORKLOADS[workload]])


@pytest.mark.parametrize("workload", [job_set, deployment])
def test_a_kind_that_the_server_does_not_have_is_no_end(cluster: Cluster, workload: Workload) -> None:
    """Its definition was taken away, or the server has only begun to start: nothing says that the owner is gone, nor that the pod ends."""
    made = workload(cluster)
    sent = ended(cluster)
    cluster.get("", "pods", POD)["metadata"].pop("deletionTimestamp")
    cluster.unserved.add(made["apiVersion"].partition("/")[0])
    for call in (lambda: session(cluster).look(3.0), lambda: session(cluster).confirm(TICKET, sent)):
        with pytest.raises(SchedulerError, match="no such kind of object") as error:
            call()
        assert (error.value.technical, error.value.in_doubt) == (True, False)


def of_an_operator(cluster: Cluster) -> None:
    cluster.objects["ray.io", "rayclusters", "r"] = made = {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r", "uid": "r1"},
    }  # fmt: skip
    cluster.pod(owner=made)


def deployment_of_an_operator(cluster: Cluster) -> None:
    made = deployment(cluster)
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "name": "llm",
            "uid": "u",
            "controller": True,
        }
    ]


def of_a_daemon_set(cluster: Cluster) -> None:
    made = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "uid": "d1"}}
    cluster.pod(owner=made)


def of_a_replica_set(cluster: Cluster) -> None:
    cluster.pod(owner=cluster.add("apps", "ReplicaSet", "lonely", spec={"selector": SELECTOR}), labels=LABELS)


def of_another_pod(cluster: Cluster) -> None:
    cluster.pod(owner=cluster.pod("driver"))


@pytest.mark.parametrize(
    "workload", [of_an_operator, deployment_of_an_operator, of_a_daemon_set, of_a_replica_set, of_another_pod]
)
def test_an_owner_that_nobody_knows_how_to_end_is_left_alone(
    cluster: Cluster, workload: Callable[[Cluster], None]
) -> None:
    """Its controller would put the pod back; and another pod, which made this one, has work of its own."""
    workload(cluster)
    facts = session(cluster).look(10.0)
    assert codes(facts) == [("refuse", "owner_unknown")]
    assert ended(cluster, facts).status == "refused"
    assert cluster.changes == []


@pytest.mark.parametrize("way", ["queue", "manager"])
def test_a_queue_that_would_let_it_go_on_is_named(cluster: Cluster, way: str) -> None:
    """Kueue admits a Job that somebody else suspended at once, and the pod would begin anew."""
    made = job(cluster)
    if way == "queue":
        made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    else:
        made["spec"]["managedBy"] = "example.com/other"
    facts = session(cluster).look(10.0)
    assert codes(facts) == [("refuse", "owner_governed")]


def test_an_autoscaler_is_told(cluster: Cluster) -> None:
    """At zero it pauses; who reads that knows who may start it again. Without the right to look that is said."""
    deployment(cluster)
    aim = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}
    cluster.add("autoscaling", "HorizontalPodAutoscaler", "web", spec={"scaleTargetRef": aim})
    facts = session(cluster).look(10.0)
    assert ("consequences", "owner_autoscaled") in codes(facts)
    assert "HorizontalPodAutoscaler web governs Deployment train" in text_of(facts, "owner_autoscaled")
    cluster.rights.discard(("list", "horizontalpodautoscalers", "autoscaling"))
    assert "it is unknown whether" in text_of(session(cluster).look(10.0), "owner_autoscaled")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.__name__)
def test_a_missing_right_is_seen_beforehand_and_named(cluster: Cluster, workload: Workload) -> None:
    """Each verb that this owner needs, one after another: a plan refuses, with the command that prints the Role."""
    workload(cluster)
    session(cluster).look(10.0)
    used = {right for right in cluster.asked if right[1] != "horizontalpodautoscalers"}
    for verb, resource, group in used:
        cluster.rights.discard((verb, resource, group))
        told = refusal(cluster)
        assert verb in told
        assert resource.partition("/")[2] in told
        assert "costguard permissions kubernetes" in told
        cluster.rights.add((verb, resource, group))
    assert codes(session(cluster).look(10.0)) == [("consequences", "owner_ends")]


def refusal(cluster: Cluster) -> str:
    """What people read of a right that is missing."""
    try:
        found = session(cluster).look(10.0)
    except SchedulerError as error:
        return f"{error.trouble == 'denied' and error} {error.hint}"
    return " ".join(
        f"{one.text} {one.hint}"
        for verdict, one in found.findings
        if (verdict, one.code) == ("refuse", "not_permitted")
    )


def test_a_right_that_is_taken_away_later_is_a_veto(cluster: Cluster) -> None:
    """What the server says when the time comes counts, whatever it said beforehand."""
    job(cluster)
    facts = session(cluster).look(10.0)
    cluster.rights.discard(("patch", "jobs", "batch"))
    sent = ended(cluster, facts)
    assert (sent.status, "cannot patch" in sent.detail, cluster.changes) == ("refused", True, [])


def test_a_disruption_budget_is_a_veto_told_as_such(cluster: Cluster) -> None:
    """Seen beforehand by a trial without an effect, and again when the time comes; never sent twice, never gone around."""
    bare(cluster)
    facts = session(cluster).look(10.0)
    cluster.budgets[POD] = "web"
    assert ("refuse", "disruption_budget") in codes(session(cluster).look(10.0))
    before = len(cluster.asked)
    sent = ended(cluster, facts)
    assert (sent.status, "disruption budget" in sent.detail) == ("refused", True)
    assert [verb for verb, _, _ in cluster.asked[before:]].count("create") == 1
    assert cluster.changes == []


def test_two_budgets_of_a_pod_are_a_veto_too(cluster: Cluster) -> None:
    """The server evicts nothing then, and says so with the code of an internal error: it would say so for ever."""
    bare(cluster)
    facts = session(cluster).look(10.0)
    cluster.budgets[POD] = "two"
    assert ("refuse", "disruption_budget") in codes(session(cluster).look(10.0))
    assert (ended(cluster, facts).status, cluster.changes) == ("refused", [])


def test_a_budget_is_asked_for_one_disruption_alone(cluster: Cluster) -> None:
    """The server counts it before it looks at the pod's version: a request that it then refuses would use up what is allowed."""
    pod = bare(cluster)
    facts = session(cluster).look(10.0)
    cluster.allowed = 1
    cluster.fails("create pods/eviction", lambda: cluster.touch(pod))
    assert (ended(cluster, facts).status, cluster.changes) == ("accepted", [WORKLOADS[bare]])


def test_another_pod_of_the_name_is_not_evicted(cluster: Cluster) -> None:
    """It took its place between the look and the request, which names the pod by its id."""
    pod = bare(cluster)
    facts = session(cluster).look(10.0)
    cluster.fails("create pods/eviction", lambda: pod["metadata"].update(uid="another"))
    assert (ended(cluster, facts).status, cluster.changes) == ("done", [])


def test_a_budget_that_is_being_reckoned_is_waited_for(cluster: Cluster) -> None:
    """It was made or changed a moment ago: that is no veto, and the pod is evicted when the budget allows it."""
    bare(cluster)
    facts = session(cluster).look(10.0)
    cluster.budgets[POD], cluster.reckoning = "web", True
    with pytest.raises(SchedulerError) as error:
        session(cluster).look(2.0)
    assert (error.value.trouble, error.value.technical) == ("throttled", True)
    sent = session(cluster).end(facts, TICKET._replace(deadline=3.0))
    assert (sent.status, cluster.changes) == ("failed", [])
    cluster.fails("create pods/eviction", None, cluster.budgets.clear)
    assert (ended(cluster, facts).status, cluster.changes) == ("accepted", [WORKLOADS[bare]])


def test_an_old_api_that_drops_the_change_is_found_out(cluster: Cluster) -> None:
    """It says that all went well, and changes nothing: before the time comes, and then too."""
    job(cluster)
    facts = session(cluster).look(10.0)
    cluster.unknown_fields = True
    assert ("refuse", "scheduler_refused") in codes(session(cluster).look(10.0))
    assert ended(cluster, facts).status == "refused"


def test_a_webhook_that_takes_no_trials_is_no_veto(cluster: Cluster) -> None:
    """Then nothing is known beforehand, which is said."""
    job(cluster)
    cluster.fails("dry patch jobs", RefusedError(400, 'admission webhook "x" does not support dry run'))
    assert codes(session(cluster).look(10.0))[-1] == ("consequences", "owner_untried")


def test_a_policy_of_the_cluster_is_a_veto(cluster: Cluster) -> None:
    """An admission webhook says no: in its words."""
    job(cluster)
    cluster.fails(
        "dry patch jobs", RefusedError(403, 'admission webhook "policy" denied the request: no changes on Mondays')
    )
    found = session(cluster).look(10.0)
    assert codes(found)[-1] == ("refuse", "scheduler_refused")
    assert "no changes on Mondays" in text_of(found, "scheduler_refused")


# what happens between the look and the request


def scaled(cluster: Cluster) -> None:
    made = cluster.get("batch", "jobs", "train")
    made["spec"]["parallelism"] = 2
    made["metadata"]["generation"] += 1
    cluster.touch(made)


def another_pod(cluster: Cluster) -> None:
    cluster.pod("another", labels=LABELS)


def made_anew(cluster: Cluster) -> None:
    cluster.get("batch", "jobs", "train")["metadata"]["uid"] = "another"
    cluster.get("", "pods", POD)["metadata"]["ownerReferences"][1]["uid"] = "another"


def suspended(cluster: Cluster) -> None:
    cluster.get("batch", "jobs", "train")["spec"]["suspend"] = True


def deleted(cluster: Cluster) -> None:
    del cluster.objects["batch", "jobs", "train"]


def finished(cluster: Cluster) -> None:
    cluster.get("", "pods", POD)["status"]["phase"] = "Succeeded"


def is_ending(cluster: Cluster) -> None:
    cluster.get("", "pods", POD)["metadata"]["deletionTimestamp"] = "2026-11-23T10:00:00Z"


@pytest.mark.parametrize(
    ("meanwhile", "status"),
    [
        (scaled, "failed"),
        (another_pod, "failed"),
        (made_anew, "refused"),
        (suspended, "accepted"),
        (deleted, "accepted"),
        (finished, "done"),
        (is_ending, "accepted"),
    ],
)
def test_right_before_the_request_it_is_looked_at_again(
    cluster: Cluster, meanwhile: Callable[[Cluster], None], status: str
) -> None:
    """What was changed is for fresh facts to decide, another one is nobody's business, and what ends already needs no request."""
    job(cluster)
    facts = session(cluster).look(10.0)
    meanwhile(cluster)
    assert ended(cluster, facts).status == status
    assert cluster.changes == []


def test_a_change_at_the_last_moment_is_looked_at_and_no_more_overwritten(cluster: Cluster) -> None:
    """Between the look and the request the Job got a second pod: the version that stands in the request refuses it."""
    made = job(cluster)
    facts = session(cluster).look(10.0)

    def at_this_moment() -> None:
        made["spec"]["parallelism"] = 5
        made["metadata"]["generation"] += 1
        cluster.touch(made)

    cluster.fails("patch jobs", at_this_moment)
    sent = ended(cluster, facts)
    assert (sent.status, "has changed since" in sent.detail, cluster.changes) == ("failed", True, [])


def test_a_new_state_alone_is_no_change_of_what_is_wanted(cluster: Cluster) -> None:
    """Its version is another one with every heartbeat of the state: then it is looked at again, and asked again."""
    made = job(cluster)
    facts = session(cluster).look(10.0)
    cluster.fails("patch jobs", lambda: cluster.touch(made))
    assert ended(cluster, facts).status == "accepted"
    assert cluster.changes == ["patch Job train"]


# what fails on the way

PASSES = [
    RefusedError(409, "the object has been modified"),
    RefusedError(410, "The resourceVersion for the provided list is too old."),
    RefusedError(429, "too many requests, please try again later", pause=1),
    PressureError(),
    RefusedError(500, "etcdserver: leader changed"),
    RefusedError(503, "the server is currently unable to handle the request"),
    RefusedError(504, "request did not complete within the allotted timeout"),
    "dropped-before",
    "html-502",
]


@pytest.mark.parametrize("fault", PASSES, ids=str)
@pytest.mark.parametrize(
    "right", ["get pods", "list pods", "get jobs", "dry patch jobs", "create selfsubjectaccessreviews"]
)
def test_what_passes_is_asked_again(cluster: Cluster, right: str, fault: Any) -> None:
    """A question that failed for a technical reason has no effect, so it is repeated with pauses."""
    job(cluster)
    cluster.fails(right, fault)
    assert codes(session(cluster).look(15.0)) == [("consequences", "owner_ends")]
    assert cluster.faults[right] == []


@pytest.mark.parametrize("fault", PASSES, ids=str)
@pytest.mark.parametrize("workload", [bare, job])
def test_a_request_that_failed_is_sent_again_after_a_look(cluster: Cluster, workload: Workload, fault: Any) -> None:
    """It had no effect: the look shows that, and the second one is taken. Each change happens once."""
    workload(cluster)
    facts = session(cluster).look(10.0)
    cluster.fails("patch jobs", fault)
    cluster.fails("create pods/eviction", fault)
    sent = ended(cluster, facts)
    assert (sent.status, cluster.changes) == ("accepted", [WORKLOADS[workload]])


@pytest.mark.parametrize("fault", ["dropped-after", "cut"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("after", ["marks", "removes"])
def test_an_answer_that_is_lost_is_not_asked_for_twice(
    cluster: Cluster, workload: Workload, fault: str, after: str
) -> None:
    """The change was made, and the connection ended: a look shows the pod on its way, and nothing is sent again."""
    workload(cluster)
    cluster.after = after
    facts = session(cluster).look(10.0)
    for right in ("create pods/eviction", *(f"patch {one}{two}" for one in PLURALS for two in ("", "/scale"))):
        cluster.fails(right, fault)
    sent = ended(cluster, facts)
    assert (sent.status, cluster.changes) == ("accepted", [WORKLOADS[workload]])
    assert "the pod is seen stopping" in sent.detail


PLURALS = ("jobs", "jobsets", "deployments", "statefulsets", "leaderworkersets", "notebooks")


def test_a_request_that_hangs_is_given_up_and_in_doubt(cluster: Cluster) -> None:
    """No answer, and the look shows a Job that goes on: nobody knows, so nobody says *failed*."""
    job(cluster)
    facts = session(cluster).look(10.0)
    cluster.fails("patch jobs", "slow")
    sent = session(cluster).end(facts, TICKET._replace(deadline=1.5))
    assert (sent.status, "unknown whether Kubernetes accepted it" in sent.detail) == ("unknown", True)
    assert cluster.changes == []


def test_a_server_that_is_gone_is_technical(cluster: Cluster) -> None:
    """Nothing left this machine, so the same may be sent again."""
    job(cluster)
    facts = session(cluster).look(10.0)
    where = place(cluster, KUBERNETES_SERVICE_PORT="1")
    gone = Kubernetes().open(where, Kubernetes().identify(where))
    with pytest.raises(SchedulerError) as error:
        gone.look(1.0)
    assert (error.value.trouble, error.value.technical, error.value.in_doubt) == ("unreachable", True, False)
    with pytest.raises(SchedulerError) as error:
        gone.end(facts, TICKET._replace(deadline=1.5))
    assert (error.value.technical, error.value.in_doubt) == (True, False)


def test_pressure_without_an_end_is_a_failure_and_no_veto(cluster: Cluster) -> None:
    """The server asks to be left alone for longer than there is: it is decided again later, on fresh readings."""
    job(cluster)
    facts = session(cluster).look(10.0)
    cluster.fails("patch jobs", RefusedError(429, "too many requests", pause=60))
    sent = ended(cluster, facts)
    assert (sent.status, cluster.changes) == ("failed", [])


def test_pressure_is_called_by_its_name(cluster: Cluster) -> None:
    """The server says so in a line of text, with how long to wait: it is no proxy that answers."""
    job(cluster)
    cluster.fails("get pods", PressureError(), PressureError())
    with pytest.raises(SchedulerError, match="too many requests") as error:
        session(cluster).look(2.0)
    assert (error.value.trouble, error.value.retry_after) == ("throttled", 1.0)


# the service account


def test_a_token_is_read_for_each_request(cluster: Cluster) -> None:
    """Kubernetes replaces it while a pod runs."""
    job(cluster)
    opened = session(cluster)
    facts = opened.look(10.0)
    cluster.rotate()
    assert opened.end(facts, TICKET).status == "accepted"


def test_a_token_that_is_not_accepted_is_technical_and_shown_nowhere(cluster: Cluster) -> None:
    """It may be replaced soon; what it was is nobody's business."""
    job(cluster)
    opened = session(cluster)
    facts = opened.look(10.0)
    (cluster.folder / "token").write_text("c4n4ry.of.a-secret")
    with pytest.raises(SchedulerError) as error:
        opened.look(2.0)
    assert (error.value.trouble, error.value.technical) == ("credentials", True)
    with pytest.raises(SchedulerError) as again:
        opened.end(facts, TICKET._replace(deadline=2.0))
    assert "c4n4ry" not in f"{error.value!r} {error.value.hint} {again.value!r}"


def test_whoever_repeats_the_token_gets_it_into_no_message(cluster: Cluster) -> None:
    """An answer of a proxy may show the request's headers; a token need not look like one."""
    job(cluster)
    opened = session(cluster)
    cluster.token = "a-word-of-the-cluster"
    (cluster.folder / "token").write_text(cluster.token)
    cluster.fails("get pods", RefusedError(400, f"what is Bearer {cluster.token}? I only know {cluster.token}."))
    with pytest.raises(SchedulerError) as error:
        opened.look(5.0)
    assert cluster.token not in f"{error.value!r}{error.value}{error.value.told}"


@pytest.mark.parametrize("text", ["", "two\nlines", "with blanks in it", "\x00"])
def test_what_is_no_token_is_never_sent(cluster: Cluster, text: str) -> None:
    """Nor does it stand in the error."""
    job(cluster)
    opened = session(cluster)
    (cluster.folder / "token").write_text(text)
    with pytest.raises(SchedulerError, match="cannot be used") as error:
        opened.look(2.0)
    assert error.value.trouble == "credentials"
    assert "automountServiceAccountToken" in error.value.hint
    assert cluster.asked == []


def test_a_proxy_of_the_environment_gets_no_token(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked itself, whatever other programs of the container are told."""
    job(cluster)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    assert session(cluster).look(5.0).state == "running"


def test_a_server_with_another_certificate_gets_no_token(cluster: Cluster) -> None:
    """The cluster's own authority alone is believed, for the address that Kubernetes gave."""
    import trustme

    job(cluster)
    trustme.CA().cert_pem.write_to_path(str(cluster.folder / "ca.crt"))
    with pytest.raises(SchedulerError) as error:
        session(cluster).look(1.0)
    assert error.value.trouble == "unreachable"
    assert cluster.agents == []
    (cluster.folder / "ca.crt").write_text("nothing")
    with pytest.raises(SchedulerError, match=r"ca\.crt holds no certificate"):
        session(cluster).look(1.0)


# states, scope, words


@pytest.mark.parametrize(
    ("phase", "state"), [("Pending", "waiting"), ("Running", "running"), ("Succeeded", "ended"), ("Failed", "ended")]
)
def test_every_phase_has_its_meaning(cluster: Cluster, phase: str, state: str) -> None:
    """A pod that does not run has no idle GPUs of its own."""
    job(cluster)
    cluster.get("", "pods", POD)["status"]["phase"] = phase
    assert session(cluster).look(10.0).state == state


def test_a_phase_that_nobody_knows_is_no_state(cluster: Cluster) -> None:
    """A node that is not heard of any more makes it Unknown: nothing follows from that."""
    job(cluster)
    cluster.get("", "pods", POD)["status"]["phase"] = "Unknown"
    with pytest.raises(SchedulerError, match="Unknown"):
        session(cluster).look(10.0)


@pytest.mark.parametrize("workload", [job, deployment, notebook])
def test_what_is_ended_already_is_not_ended_again(cluster: Cluster, workload: Workload) -> None:
    """Somebody else was faster: the state says so, and nothing is sent."""
    made = workload(cluster)
    facts = session(cluster).look(10.0)
    made["spec"]["suspend"], made["spec"]["replicas"] = True, 0
    made["metadata"]["annotations"] = {"kubeflow-resource-stopped": "2026-11-23T10:00:00Z"}
    assert session(cluster).look(10.0).state == "ending"
    assert (ended(cluster, facts).status, cluster.changes) == ("accepted", [])


def test_what_was_accepted_and_does_not_happen_is_said(cluster: Cluster) -> None:
    """Somebody lets the Job go on again, and the pod runs: that is what people read."""
    made = job(cluster)
    cluster.after = "nothing"
    sent = ended(cluster)
    assert session(cluster).confirm(TICKET, sent).status == "pending"
    made["spec"]["suspend"] = False
    again = session(cluster).confirm(TICKET, sent)
    assert (again.status, "still runs" in again.detail) == ("accepted", True)
    assert session(cluster).confirm(TICKET, None).status == "unknown"


def test_the_gpus_of_all_containers_count(cluster: Cluster) -> None:
    """A sidecar that keeps running too; parts of GPUs and claims of devices are not counted, so nothing is known."""
    pod = bare(cluster)
    pod["spec"]["containers"].append({"resources": {"limits": {"nvidia.com/gpu": "2"}}})
    pod["spec"]["initContainers"] = [
        {"restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
        {"resources": {"limits": {"nvidia.com/gpu": "8"}}},
    ]
    assert session(cluster).look(10.0).gpus == 7
    pod["spec"]["containers"][1]["resources"]["limits"] = {"nvidia.com/mig-1g.10gb": "1"}
    assert session(cluster).look(10.0).gpus is None
    pod["spec"]["containers"][1]["resources"] = {}
    pod["spec"]["resourceClaims"] = [{"name": "gpu"}]
    assert session(cluster).look(10.0).gpus is None


def test_the_owner_reads_it_among_the_events_of_the_pod(cluster: Cluster) -> None:
    """`kubectl describe pod` shows it."""
    job(cluster)
    where = session(cluster).tell("idle for an hour:\n suspended at 15:40", 5.0)
    (event,) = [one for (_, plural, _), one in cluster.objects.items() if plural == "events"]
    assert (event["message"], event["involvedObject"]["name"]) == ("idle for an hour: suspended at 15:40", POD)
    assert event["involvedObject"]["uid"] == cluster.get("", "pods", POD)["metadata"]["uid"]
    assert where == "the events of pod ml/train-x7k"


def test_words_that_stand_there_already_are_told(cluster: Cluster) -> None:
    """The answer was lost, and they are written again in the same second: the server has them, and says so."""
    job(cluster)
    told = {session(cluster).tell("idle for an hour", 5.0) for _ in range(20)}  # of which two are in one second
    events = [one for (_, plural, _), one in cluster.objects.items() if plural == "events"]
    assert (told, len(events) < 20) == ({"the events of pod ml/train-x7k"}, True)


def test_numbers_that_are_none_are_not_guessed(cluster: Cluster) -> None:
    """How many pods there are to be must be known."""
    deployment(cluster)["spec"]["replicas"] = "many"
    with pytest.raises(SchedulerError, match="has no number"):
        session(cluster).look(10.0)


def test_facts_are_plain_and_hold_no_secret(cluster: Cluster) -> None:
    """They become part of plans, messages and records."""
    job(cluster)
    text = json.dumps(session(cluster).look(10.0))
    assert cluster.token not in text
