"""The plug-in and the agent beside a real API server. `make test-kubernetes`."""

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from costguard.cloud.api import Ticket
from costguard.plans import Result
from costguard.tasks.api import SchedulerError, TaskFacts
from costguard_kubernetes import Kubernetes, change
from costguard_kubernetes.api import Api, Request
from costguard_kubernetes.kinds import KINDS, Object
from costguard_kubernetes.permissions import COMMANDS, RIGHTS
from tests.e2e.conftest import Agent
from tests.kubernetes.cluster import environment, found
from tests.kubernetes.conftest import grant
from tests.kubernetes.relay import Relay, effective
from tests.kubernetes.space import (
    ACCOUNT,
    LABELS,
    PLURALS,
    Space,
    Workload,
    bare,
    deployment,
    job,
    job_set,
    leader_worker_set,
    notebook,
    now,
    stateful_set,
    template,
)

PAGE = Path(__file__).parents[2] / "docs/tasks.md"
TICKET = Ticket("i1", "a1", 20.0)
KINDS_OF_OWNERS: tuple[Workload, ...] = (bare, job_set, deployment, stateful_set, leader_worker_set, notebook)
"""Those that end in every version; of a Job see its own test."""


def codes(facts: TaskFacts) -> list[tuple[str, str]]:
    return [(verdict, finding.code) for verdict, finding in facts.findings]


def text_of(facts: TaskFacts, code: str) -> str:
    (found,) = [finding.text for _, finding in facts.findings if finding.code == code]
    return found


def ended(space: Space) -> Result:
    session = space.session()
    return session.end(session.look(10.0), TICKET)


def refused(space: Space) -> str:
    """What people read of a right that is missing."""
    try:
        found = space.session().look(10.0)
    except SchedulerError as error:
        return f"{error.trouble == 'denied' and error}"
    return " ".join(one.text for verdict, one in found.findings if (verdict, one.code) == ("refuse", "not_permitted"))


# rights


def may(space: Space, verb: str, resource: str, group: str) -> bool:
    """What the server says of a right of the service account."""
    plural, _, part = resource.partition("/")
    wanted = {"namespace": space.name, "verb": verb, "group": group, "resource": plural, "subresource": part}
    body = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": space.user, "groups": ["system:serviceaccounts"], "resourceAttributes": wanted},
    }  # fmt: skip
    said = space.cluster.done("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return said["status"].get("allowed") is True


def test_the_commands_that_people_read_grant_it(bare_space: Space) -> None:
    """`costguard permissions kubernetes` prints them; run as they are, with the two names filled in."""
    space = bare_space
    named = COMMANDS.replace("THE_POD_S_OWN", ACCOUNT).replace("ITS_NAMESPACE", space.name)
    folder = space.folder / "bin"
    folder.mkdir()
    own = f"exec {found('kubectl')} --kubeconfig={space.cluster.folder}/kubeconfig"
    for name, line in {"kubectl": own, "costguard": f"exec {sys.executable} -m costguard"}.items():
        (folder / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
        (folder / name).chmod(0o755)
    environ = environment(space.cluster.folder) | {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", named], cwd=space.folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    space.cluster.until(lambda: may(space, "create", "events", ""))


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
MORE = (
    ("secrets", ""),
    ("pods/exec", ""),
    ("pods/log", ""),
    ("nodes", ""),
    ("cronjobs", "batch"),
    ("deployments", "apps"),
)


def test_the_role_grants_exactly_what_the_code_declares(space: Space) -> None:
    """As the server reads it: each verb on each resource is allowed or not, and no other of the like is."""
    declared = {(one.verb, one.resource, one.group) for one in RIGHTS}
    space.cluster.until(lambda: may(space, "create", "events", ""))
    asked = {(resource, group) for _, resource, group in declared} | set(MORE)
    allowed = {
        (verb, resource, group) for resource, group in asked for verb in VERBS if may(space, verb, resource, group)
    }
    assert allowed == declared


@pytest.mark.parametrize("workload", [*KINDS_OF_OWNERS, job], ids=lambda one: one.__name__)
def test_each_right_is_needed_and_a_missing_one_is_named(bare_space: Space, workload: Workload) -> None:
    """One after another is taken away: the plan refuses beforehand and names it. With all of them nothing else is asked for."""
    space, whole = bare_space, Kubernetes().policy()
    workload(space)
    grant(space, whole)
    space.cluster.until(lambda: may(space, "create", "events", ""))
    space.session().look(10.0)
    declared = {(one.verb, one.resource, one.group) for one in RIGHTS}
    own = {one for one in space.asked() if one[1] not in ("selfsubjectaccessreviews", "horizontalpodautoscalers")}
    assert own <= declared
    put(space, declared)
    for right in own:
        put(space, declared - {right})
        space.cluster.until(lambda right=right: not may(space, *right))  # type: ignore[misc] # a default binds it
        told = refused(space)
        assert right[0] in told
        assert right[1].partition("/")[0] in told
        put(space, declared)
        space.cluster.until(lambda right=right: may(space, *right))  # type: ignore[misc] # a default binds it


def put(space: Space, rights: set[tuple[str, str, str]]) -> None:
    """From now on the Role grants these."""
    rules = [{"verbs": [verb], "resources": [resource], "apiGroups": [group]} for verb, resource, group in rights]
    space.cluster.done("PATCH", space.path("rbac.authorization.k8s.io/v1", "roles", "costguard"), {"rules": rules})


def test_a_rule_may_be_for_one_object(bare_space: Space) -> None:
    """``resourceNames``, as the page says: the right is asked for by the owner's name, and for another one it is not there."""
    space = bare_space
    deployment(space)
    grant(space, Kubernetes().policy())
    role = space.cluster.done("GET", space.path("rbac.authorization.k8s.io/v1", "roles", "costguard"))
    space.cluster.until(lambda: may(space, "create", "events", ""))
    for name, told in (("train", ("consequences", "owner_ends")), ("other", ("refuse", "not_permitted"))):
        rules = [
            one | ({"resourceNames": [name]} if one["resources"] == ["deployments/scale"] else {})
            for one in role["rules"]
        ]
        space.cluster.done("PATCH", space.path("rbac.authorization.k8s.io/v1", "roles", "costguard"), {"rules": rules})
        space.cluster.until(lambda told=told: codes(space.session().look(10.0))[-1] == told)  # type: ignore[misc] # bound


def test_the_sidecar_of_the_page_is_a_pod(space: Space) -> None:
    """The server takes it as it stands there, beside the container that works."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    made = yaml.safe_load(text)
    made["spec"]["containers"] = template()["spec"]["containers"]
    strict = "&fieldValidation=Strict" * (
        space.cluster.version >= (1, 29)
    )  # older ones do not know a sidecar's `restartPolicy`
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, **made}
    taken = space.cluster.done("POST", space.path("v1", "pods") + "?dryRun=All" + strict, body)
    sources = taken["spec"]["volumes"][0]["projected"]["sources"]
    assert [next(iter(one)) for one in sources] == ["serviceAccountToken", "configMap", "downwardAPI"]


# what ends, and what undoes it


@pytest.mark.parametrize("workload", KINDS_OF_OWNERS, ids=lambda one: one.__name__)
def test_the_owner_is_ended_and_can_go_on(space: Space, workload: Workload) -> None:
    """A look and a trial change nothing; the request changes the owner; the command that people read undoes it."""
    workload(space)
    made = owner_of(space)
    before = space.get(made)
    facts = space.session().look(10.0)
    assert (facts.state, facts.said, facts.gpus, facts.elsewhere) == ("running", "phase Running", 1, "")
    assert codes(facts) == [("consequences", "owner_ends")]
    assert (wanted(space.get(made)), space.dying(space.guarded)) == (wanted(before), False)
    sent = space.session().end(facts, TICKET)
    assert (sent.status, "train" in sent.proof) == ("accepted", True), sent
    seen = space.session().confirm(TICKET, sent)
    if workload in (deployment, stateful_set):
        space.cluster.until(lambda: space.dying(space.guarded))
        seen = space.session().confirm(TICKET, sent)
    assert (seen.status, seen.proof) == ("pending", sent.proof), seen
    space.ends(space.guarded)
    if workload is not bare:
        undo = text_of(facts, "owner_ends").split("`")[1]
        space.cluster.kubectl(*words(undo))
        assert wanted(space.get(made)) == wanted(before)
    assert "delete" not in {one["verb"] for one in space.cluster.audited(space.user)}


def words(line: str) -> list[str]:
    program, *rest = shlex.split(line)
    assert program == "kubectl"
    return rest


def wanted(one: Any) -> Any:
    """What is wanted of an owner."""
    spec = one["spec"] | ({} if one["spec"].get("suspend") else {"suspend": False})
    return spec, one["metadata"].get("annotations", {}).get("kubeflow-resource-stopped")


def owner_of(space: Space) -> Any:
    """The topmost controller of the guarded pod, or that."""
    found = space.get(space.guarded)
    while owners := found["metadata"].get("ownerReferences"):
        one = {
            "apiVersion": owners[0]["apiVersion"],
            "kind": owners[0]["kind"],
            "metadata": {"name": owners[0]["name"]},
        }
        found = space.get(one)
    return found


def test_a_job_is_suspended_by_the_versions_that_can(space: Space) -> None:
    """From 1.21 on. An older one drops the field and says that all went well: that is found out beforehand, and refused."""
    made = job(space)
    facts = space.session().look(10.0)
    if space.cluster.version < (1, 21):
        assert codes(facts)[-1] == ("refuse", "scheduler_refused")
        assert space.session().end(facts, TICKET).status == "refused"
        return
    assert space.session().end(facts, TICKET).status == "accepted"
    assert space.get(made)["spec"]["suspend"] is True
    space.cluster.until(lambda: space.dying(space.guarded))
    assert space.session().confirm(TICKET, None).status == "pending"


def test_the_pod_that_is_gone_is_seen_gone(space: Space) -> None:
    """Also where another pod has its name by then: that is another one, and left alone."""
    made = stateful_set(space)
    space.session().look(10.0)
    sent = ended(space)
    space.cluster.until(lambda: space.dying(space.guarded))
    opened = space.session()
    space.ends(space.guarded)
    assert opened.confirm(TICKET, sent).status == "done"
    space.change(made, {"spec": {"replicas": 1}})
    again = space.runs(space.pod())
    assert again["metadata"]["name"] == space.guarded["metadata"]["name"]
    (space.folder / "token").write_text(space.token(None))  # one that is bound to no pod is not refused with the pod
    named = {"POD_NAME": again["metadata"]["name"], "POD_UID": space.guarded["metadata"]["uid"]}
    assert space.session(**named).look(10.0).state == "ended"
    assert space.session(**named).confirm(TICKET, sent).status == "done"


def test_every_right_is_used_when_messages_are_written_too(space: Space) -> None:
    """An event of the pod, where its owner looks."""
    deployment(space)
    for _ in range(5):  # two of them are in one second, which the server knows
        assert "events of pod" in space.session().tell("idle for an hour", 5.0)
    listed = space.cluster.done("GET", space.path("v1", "events"))["items"]
    event, *_ = [one for one in listed if one["reason"] == "Costguard"]
    assert event["involvedObject"]["uid"] == space.guarded["metadata"]["uid"]
    assert "idle for an hour" in space.cluster.kubectl(
        "describe", "pod", "-n", space.name, event["involvedObject"]["name"]
    )


# budgets


def budget(space: Space, name: str = "web", least: int = 1) -> Any:
    version = "policy/v1" if space.cluster.version >= (1, 21) else "policy/v1beta1"
    spec = {"minAvailable": least, "selector": {"matchLabels": LABELS}}
    at = space.path(version, "poddisruptionbudgets")
    space.make(version, "poddisruptionbudgets", {"metadata": {"name": name}, "spec": spec})
    space.cluster.until(lambda: space.cluster.done("GET", f"{at}/{name}").get("status", {}).get("currentHealthy") == 1)
    return f"{at}/{name}"


def test_a_disruption_budget_is_a_veto_told_as_such(space: Space) -> None:
    """Beforehand, and when the time comes; once it allows it the pod is evicted."""
    bare(space)
    facts = space.session().look(10.0)
    at = budget(space)
    before = space.session().look(10.0)
    assert codes(before)[-1] == ("refuse", "disruption_budget")
    sent = space.session().end(facts, TICKET)
    assert (sent.status, "disruption budget" in sent.detail) == ("refused", True)
    assert not space.dying(space.guarded)
    space.cluster.done("PATCH", at, {"spec": {"minAvailable": 0}})
    space.cluster.until(lambda: space.cluster.done("GET", at)["status"]["disruptionsAllowed"] == 1)
    assert ended(space).status == "accepted"
    assert space.dying(space.guarded)


def test_two_budgets_of_a_pod_are_a_veto(space: Space) -> None:
    """The server evicts nothing then, and says so in a way of its own."""
    bare(space)
    facts = space.session().look(10.0)
    budget(space, "one", 0)
    budget(space, "two", 0)
    assert codes(space.session().look(10.0))[-1] == ("refuse", "disruption_budget")
    sent = space.session().end(facts, TICKET)
    assert (sent.status, space.dying(space.guarded)) == ("refused", False), sent


def test_a_budget_is_asked_for_one_disruption_alone(space: Space, relay: Relay) -> None:
    """The server counts a disruption before it looks at the pod's version: a request that it then refuses would use up what is allowed."""
    bare(space)
    at = budget(space, least=0)
    space.cluster.until(lambda: space.cluster.done("GET", at)["status"]["disruptionsAllowed"] == 1)
    facts = space.session().look(10.0)
    relay.before = lambda: changed(space, space.guarded)
    sent = space.session().end(facts, TICKET)
    assert (sent.status, space.dying(space.guarded)) == ("accepted", True), sent


def test_a_budget_that_is_being_reckoned_is_waited_for(space: Space) -> None:
    """It was changed a moment ago, and what it allows is not known yet: no veto, and no eviction."""
    bare(space)
    opened = space.session()
    facts = opened.look(10.0)
    at = budget(space, least=0)
    space.cluster.stop_controllers()
    try:
        space.cluster.done("PATCH", at, {"spec": {"minAvailable": 1}})
        space.cluster.done("PATCH", at, {"spec": {"minAvailable": 0}})
        sent = opened.end(facts, TICKET._replace(deadline=3.0))
        assert (sent.status, space.dying(space.guarded)) == ("failed", False), sent
    finally:
        space.cluster.start_controllers()
    assert opened.end(facts, TICKET).status == "accepted"


# what changes meanwhile


def changed(space: Space, made: Any) -> None:
    space.change(made, {"metadata": {"labels": {"changed": "yes"}}})


def made_anew(space: Space, made: Any) -> None:
    """Under the same name: it has another uid, and another version."""
    space.cluster.done("DELETE", space.at(made), {"propagationPolicy": "Orphan", "gracePeriodSeconds": 0})
    space.cluster.until(lambda: space.gone(made))
    body = {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {"name": made["metadata"]["name"]}}
    left_out = {"Job": "selector", "Pod": "nodeName"}.get(made["kind"])
    spec = {key: one for key, one in made["spec"].items() if key != left_out}
    if made["kind"] == "Job":
        spec["template"]["metadata"]["labels"] = LABELS
    space.make(made["apiVersion"], PLURALS[made["kind"]], {**body, "spec": spec})
    if made["kind"] == "Pod":
        space.runs(space.pod())  # of one that waits the server tries the eviction for ten seconds


@pytest.mark.parametrize(
    ("workload", "meanwhile"),
    [(one, how) for one in (*KINDS_OF_OWNERS, job) for how in (changed, made_anew) if (one, how) != (bare, changed)],
)
def test_a_request_about_what_has_changed_is_refused_by_the_server(
    space: Space, workload: Workload, meanwhile: Callable[[Space, Any], None]
) -> None:
    """Uid and version stand in the request (of a pod the uid alone): the answer is a conflict, which a fresh look cures, and nothing is changed."""
    workload(space)
    made = owner_of(space)
    group, _, version = f"/{made['apiVersion']}".rpartition("/")
    target = Object(KINDS[group.strip("/"), made["kind"]], version, made)
    place, _ = space.task()
    space.token(None)  # a token that is bound to the pod goes with it
    meanwhile(space, made)
    before = space.get(made)
    for dry in (True, False):
        with pytest.raises(SchedulerError) as error:
            Api(place).send(change.of(target, space.name, dry=dry).request, 5.0)
        assert (error.value.code, error.value.technical, error.value.in_doubt) == ("Conflict", True, False), error.value
    assert wanted(space.get(made)) == wanted(before)
    assert not space.get(made)["metadata"].get("deletionTimestamp")


def requests_with_an_effect(space: Space) -> int:
    return sum(effective(one["requestURI"]) for one in space.cluster.audited(space.user))


@pytest.mark.parametrize("workload", KINDS_OF_OWNERS, ids=lambda one: one.__name__)
def test_an_answer_that_is_lost_is_not_asked_for_twice(space: Space, relay: Relay, workload: Workload) -> None:
    """The server has made the change, and nobody hears of it: a look shows it, and nothing is sent again."""
    workload(space)
    facts = space.session().look(10.0)
    relay.loses = True
    sent = space.session().end(facts, TICKET)
    assert (sent.status, "the pod is seen stopping" in sent.detail) == ("accepted", True), sent
    assert (relay.loses, requests_with_an_effect(space)) == (False, 1)


def test_a_change_at_the_last_moment_is_not_overwritten(space: Space, relay: Relay) -> None:
    """Between the look and the request somebody scales up: the server refuses the request, and fresh facts have to decide."""
    made = deployment(space)
    facts = space.session().look(10.0)
    relay.before = lambda: space.change(made, {"spec": {"replicas": 2}})
    sent = space.session().end(facts, TICKET)
    assert (sent.status, "has changed since" in sent.detail) == ("failed", True), sent
    assert (space.get(made)["spec"]["replicas"], requests_with_an_effect(space)) == (2, 1)


@pytest.mark.parametrize("workload", KINDS_OF_OWNERS[1:], ids=lambda one: one.__name__)
def test_a_new_state_alone_is_asked_for_again(space: Space, relay: Relay, workload: Workload) -> None:
    """Its version is another one with each change of its state: the server refuses the first request and takes the second."""
    workload(space)
    made = owner_of(space)
    facts = space.session().look(10.0)
    relay.before = lambda: space.change(made, {"metadata": {"labels": {"heartbeat": "1"}}})
    assert space.session().end(facts, TICKET).status == "accepted"
    assert requests_with_an_effect(space) == 2


def test_what_is_gone_at_this_moment_is_looked_at_again(space: Space) -> None:
    """The owner, whose pod goes with it; and the pod itself."""
    made = deployment(space)
    facts = space.session().look(10.0)
    space.cluster.done("DELETE", space.at(made), {"propagationPolicy": "Background"})
    sent = space.session().end(facts, TICKET)
    assert (sent.status, "nothing was sent" in sent.detail) == ("accepted", True), sent
    space.cluster.until(lambda: space.dying(space.guarded))
    opened = space.session()
    space.ends(space.guarded)
    assert opened.end(facts, TICKET).status == "done"


def test_what_goes_at_the_last_moment_is_looked_at_again(space: Space, relay: Relay) -> None:
    """Between the look and the request the owner is deleted: not found, and a look shows that its pod goes with it."""
    made = deployment(space)
    facts = space.session().look(10.0)

    def at_this_moment() -> None:
        space.cluster.done("DELETE", space.at(made), {"propagationPolicy": "Background"})
        space.cluster.until(lambda: space.dying(space.guarded))

    relay.before = at_this_moment
    sent = space.session().end(facts, TICKET)
    assert (sent.status, "is being ended already" in sent.detail) == ("accepted", True), sent


def test_an_owner_that_leaves_its_pods_behind_is_none(space: Space) -> None:
    """Deleted alone: the pod goes on without one, and is another task than was looked at."""
    made = stateful_set(space)
    facts = space.session().look(10.0)
    space.cluster.done("DELETE", space.at(made), {"propagationPolicy": "Orphan"})
    space.cluster.until(lambda: not space.get(space.guarded)["metadata"].get("ownerReferences"))
    assert space.session().end(facts, TICKET).status == "refused"
    assert not space.dying(space.guarded)


def test_what_an_operator_made_is_left_alone(space: Space) -> None:
    """Two levels up is a kind that nobody here knows: it would put back what is scaled to zero."""
    made = deployment(space)
    owner = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "llm", "uid": "u-1"}
    space.cluster.stop_controllers()  # one of them ends what is of an owner that is not there
    try:
        space.change(made, {"metadata": {"ownerReferences": [owner | {"controller": True}]}})
        facts = space.session().look(10.0)
        assert codes(facts) == [("refuse", "owner_unknown")]
        assert space.session().end(facts, TICKET).status == "refused"
        assert space.get(made)["spec"]["replicas"] == 1
        space.change(made, {"metadata": {"ownerReferences": None}})
    finally:
        space.cluster.start_controllers()


def test_a_version_of_the_api_that_is_not_served_any_more_is_no_end(space: Space) -> None:
    """A pod keeps the version in which its owner's controller knew it: that it is not found there does not say that it is gone."""
    made = job_set(space)
    below = space.get(space.guarded)["metadata"]["ownerReferences"][0]
    at = space.path("batch/v1", "jobs", below["name"])
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha1", "kind": "JobSet", "controller": True}
    named = owner | {"name": "train", "uid": made["metadata"]["uid"]}
    space.cluster.done("PATCH", at, {"metadata": {"ownerReferences": [named]}})
    facts = space.session().look(10.0)
    assert (facts.state, codes(facts)) == ("running", [("consequences", "owner_ends")])
    assert ended(space).status == "accepted"
    assert space.get(made)["spec"]["suspend"] is True


def test_a_kind_that_the_server_does_not_know_is_no_end(space: Space) -> None:
    """Its definition was taken away, or the server has only begun to start: the pod runs, and that is what is said."""
    made = stateful_set(space)
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": "train", "uid": "u-1", "controller": True}
    space.change(
        made,
        {
            "metadata": {
                "ownerReferences": [owner | {"apiVersion": "leaderworkerset.x-k8s.io/v9", "kind": "LeaderWorkerSet"}]
            }
        },
    )
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = "leaderworkersets.leaderworkerset.x-k8s.io"
    kept = space.cluster.done("GET", f"{definitions}/{name}")
    space.cluster.done("DELETE", f"{definitions}/{name}")
    try:
        space.cluster.until(lambda: space.cluster.ask("GET", f"{definitions}/{name}").code == 404)
        with pytest.raises(SchedulerError) as error:
            space.session().look(3.0)
        assert (error.value.technical, "no such kind of object" in str(error.value)) == (True, True), error.value
    finally:
        body = {key: kept[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": name}}
        space.cluster.done("POST", definitions, body)
        space.cluster.until(
            lambda: space.cluster.ask("GET", "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets").code == 200
        )


# who asks


def test_the_token_names_the_pod(space: Space) -> None:
    """The server wrote it into the token; without a downward API."""
    deployment(space)
    _, task = space.task()
    meta = space.guarded["metadata"]
    assert task.details == {"namespace": space.name, "pod": meta["name"], "uid": meta["uid"], "run": meta["uid"]}


def test_a_pod_without_an_id_is_believed_by_its_address(space: Space) -> None:
    """A token that is bound to none, and the host's name: the pod must have the address from which it is asked."""
    stateful_set(space)
    space.token(None)
    name = space.guarded["metadata"]["name"]
    assert space.session(HOSTNAME=name).look(10.0).state == "running"
    said = {"podIP": "192.0.2.7", "podIPs": [{"ip": "192.0.2.7"}]}
    space.change(space.guarded, {"status": said}, "status")
    with pytest.raises(SchedulerError, match="has another address"):
        space.session(HOSTNAME=name).look(10.0)


def expired(space: Space) -> str:
    return space.signed(iat=now() - 7200, nbf=now() - 7200, exp=now() - 3600)


def of_another_audience(space: Space) -> str:
    return space.signed(aud=["https://vault.example.org"])


def of_nobody(space: Space) -> str:
    return (space.folder / "token").read_text()[:-8] + "AAAAAAAA"


@pytest.mark.parametrize("bad", [expired, of_another_audience, of_nobody])
def test_a_token_that_is_not_accepted_is_technical(space: Space, bad: Callable[[Space], str]) -> None:
    """It is replaced soon, and read anew for each request: the same session goes on with the next one."""
    deployment(space)
    opened = space.session()
    facts = opened.look(10.0)
    (space.folder / "token").write_text(token := bad(space))
    for call in (lambda: opened.look(2.0), lambda: opened.end(facts, TICKET._replace(deadline=2.0))):
        with pytest.raises(SchedulerError) as error:
            call()
        assert (error.value.trouble, error.value.technical, error.value.in_doubt) == ("credentials", True, False)
        assert token.rpartition(".")[2] not in f"{error.value!r}{error.value.hint}"
    space.token(space.guarded)
    assert opened.end(facts, TICKET).status == "accepted"


def test_the_token_of_a_pod_ends_with_the_pod(space: Space) -> None:
    """What follows the end of the own pod is no answer any more: it is not taken for one."""
    bare(space)
    opened = space.session()
    sent = opened.end(opened.look(10.0), TICKET)
    space.ends(space.guarded)
    space.cluster.until(
        lambda: space.cluster.ask("GET", "/api", token=(space.folder / "token").read_text()).code == 401
    )
    with pytest.raises(SchedulerError) as error:
        opened.confirm(TICKET, sent)
    assert error.value.trouble == "credentials"


def test_an_account_without_rights_is_told_which(bare_space: Space) -> None:
    """The server's words, and the command that prints the Role."""
    deployment(bare_space)
    with pytest.raises(SchedulerError, match='cannot get resource "pods"') as error:
        bare_space.session().look(5.0)
    assert (error.value.trouble, "costguard permissions kubernetes" in error.value.hint) == ("denied", True)
    with pytest.raises(SchedulerError, match='cannot create resource "events"'):
        bare_space.session().tell("idle", 5.0)


def test_a_pod_of_another_namespace_is_not_looked_at(space: Space) -> None:
    """The Role is of one namespace; whoever names a pod of another is refused by what the token says."""
    deployment(space)
    with pytest.raises(SchedulerError, match="disagree"):
        space.task(POD_NAMESPACE="default")


# what else is read


def test_a_selector_of_every_form_finds_the_pods(space: Space) -> None:
    """As the server reads it: with expressions beside labels, and another pod that fits."""
    expressions = [
        {"key": "app", "operator": "In", "values": ["train", "serve"]},
        {"key": "tier", "operator": "NotIn", "values": ["web", "db"]},
        {"key": "app", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    space.own(
        "Deployment",
        "apps/v1",
        {"selector": {"matchLabels": LABELS, "matchExpressions": expressions}, "template": template()},
    )
    space.guard(space.runs(space.pod()))
    assert space.session().look(10.0).elsewhere == ""
    space.cluster.stop_controllers()  # one of them ends what is of an owner that is not there
    for name, labels in (("old", {"old": "yes"}), ("web", {"tier": "web"}), ("fits", {"tier": "gpu"})):
        body = template(**labels)
        body["metadata"] |= {"name": name}
        owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": ACCOUNT, "controller": True, "uid": "u-1"}
        body["metadata"]["ownerReferences"] = [owner]
        space.make("v1", "pods", {"apiVersion": "v1", "kind": "Pod", **body})
    try:
        assert space.session().look(10.0).elsewhere == "Deployment train also has the pod fits"
    finally:
        space.cluster.start_controllers()


def test_an_autoscaler_is_told(space: Space) -> None:
    """It is found in the version that every server has, by what it scales."""
    deployment(space)
    aim = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}
    spec = {"scaleTargetRef": aim, "minReplicas": 1, "maxReplicas": 3}
    space.make("autoscaling/v1", "horizontalpodautoscalers", {"metadata": {"name": "web"}, "spec": spec})
    assert "HorizontalPodAutoscaler web governs Deployment train" in text_of(
        space.session().look(10.0), "owner_autoscaled"
    )


# many pods, and a server that is away


def test_pods_that_have_ended_hide_none_that_lives(space: Space) -> None:
    """However many of them an owner left behind: the one that lives and comes last in the list is seen."""
    made = stateful_set(space)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": made["metadata"]["uid"]}
    space.change(made, {"spec": {"template": {"metadata": {"labels": {"app": "train"}}}}})
    for number in range(230):
        body = template()
        body["metadata"] |= {"name": f"a-{number:03}", "labels": LABELS}
        pod = space.make("v1", "pods", {"apiVersion": "v1", "kind": "Pod", **body})
        space.change({"apiVersion": "v1", "kind": "Pod", **pod}, {"status": {"phase": "Failed"}}, "status")
    assert space.session().look(10.0).elsewhere == ""
    body = template()
    body["metadata"] |= {"name": "z-lives", "labels": LABELS, "ownerReferences": [owner]}
    space.make("v1", "pods", {"apiVersion": "v1", "kind": "Pod", **body})
    assert "also has the pod z-lives" in space.session().look(10.0).elsewhere


def test_a_server_that_was_away_is_asked_again(space: Space) -> None:
    """Nothing is claimed meanwhile, and nothing sent; when it is back the same session ends the pod."""
    made = deployment(space)
    opened = space.session()
    facts = opened.look(10.0)
    space.cluster.stop_server()
    try:
        for call in (lambda: opened.look(2.0), lambda: opened.end(facts, TICKET._replace(deadline=2.0))):
            with pytest.raises(SchedulerError) as error:
                call()
            assert (error.value.trouble, error.value.in_doubt) == ("unreachable", False)
    finally:
        space.cluster.start_server()
    space.cluster.until(lambda: may(space, "get", "pods", ""))
    assert opened.end(facts, TICKET).status == "accepted"
    assert space.get(made)["spec"]["replicas"] == 0


def test_a_store_that_hangs_is_technical(space: Space) -> None:
    """The server answers nothing that its etcd has to say: nothing is claimed and nothing sent, and afterwards it goes on."""
    deployment(space)
    opened = space.session()
    facts = opened.look(10.0)
    space.cluster.pause("etcd")
    try:
        for call in (lambda: opened.look(3.0), lambda: opened.end(facts, TICKET._replace(deadline=3.0))):
            with pytest.raises(SchedulerError) as error:
                call()
            assert (error.value.technical, error.value.in_doubt) == (True, False), error.value
    finally:
        space.cluster.go_on("etcd")
    assert opened.end(facts, TICKET).status == "accepted"


def test_pressure_on_the_server_is_waited_for(space: Space) -> None:
    """It takes one question at a time, and others ask without a pause: its refusal is read as what it is, and the pod is ended."""
    stateful_set(space)
    opened = space.session()
    facts = opened.look(10.0)
    stop, seen = threading.Event(), list[tuple[str, str]]()
    space.cluster.stop_server()
    space.cluster.start_server("--max-requests-inflight=1", "--enable-priority-and-fairness=false")
    space.cluster.until(lambda: may(space, "get", "pods", ""))

    def ask() -> None:
        place, _ = space.task()
        api = Api(place)
        while not stop.is_set():
            try:
                api.send(Request("GET", space.path("v1", "pods"), "asking"), 5.0)
            except SchedulerError as error:
                seen.append((error.trouble, error.code))

    others = [threading.Thread(target=ask) for _ in range(6)]
    try:
        for one in others:
            one.start()
        space.cluster.until(lambda: len(seen) > 5)
        sent = opened.end(facts, TICKET)
    finally:
        stop.set()
        for one in others:
            one.join()
        space.cluster.stop_server()
        space.cluster.start_server()
    assert set(seen) == {("throttled", "TooManyRequests")}
    assert sent.status == "accepted", sent


# the whole


def test_the_agent_ends_what_owns_its_idle_pod_and_nothing_else(space: Space, agent: Agent) -> None:
    """From the idle GPUs to the pod that its controllers end. Its events say why; another Deployment goes on; the token stands nowhere."""
    made = deployment(space, gpus="2")
    other = space.own(
        "Deployment", "apps/v1", made["spec"] | {"selector": OTHER, "template": other_template()}, name="other"
    )
    agent.gpus.set(0, util=0)
    agent.hurry(4)
    agent.environment |= space.environment()
    agent.settings.append(f"task.kubernetes.service_account={space.folder}")
    agent.start(*QUICK, "mode=live")
    agent.until(lambda _: space.dying(space.guarded))
    agent.until(lambda _: "accepted: CONFIRMING" in (agent.folder / "log").read_text())
    told = space.cluster.kubectl("describe", "pod", "-n", space.name, space.guarded["metadata"]["name"])
    agent.stop()  # as the kubelet does
    assert "Scaling of Deployment train to zero" in told
    assert (space.get(made)["spec"]["replicas"], space.get(other)["spec"]["replicas"]) == (0, 1)
    token = (space.folder / "token").read_text()
    kept = [one for one in agent.folder.rglob("*") if one.is_file() and space.folder not in one.parents]
    assert not any(token in one.read_bytes().decode("utf-8", "replace") for one in kept)
    assert "delete" not in {verb for verb, _, _ in space.asked()}


QUICK = (
    "arm_duration=off",
    "kill_duration=1s",
    "boot_grace=0s",
    "grace=1s",
    "unused_after=off",
    "kill_action=end_task",
)
OTHER = {"matchLabels": {"app": "other"}}


def other_template() -> dict[str, Any]:
    made = template()
    made["metadata"]["labels"] = OTHER["matchLabels"]
    return made
