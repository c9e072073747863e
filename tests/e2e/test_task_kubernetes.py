"""``costguard run`` in a pod: the real agent, a stand-in of NVIDIA's library, and a strict stand-in of Kubernetes' API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Agent
from tests.schedulers.kubernetes.conftest import LABELS, bare, job
from tests.schedulers.kubernetes.standin import POD, Cluster

QUICK = (
    "arm_duration=off",
    "kill_duration=1s",
    "boot_grace=0s",
    "grace=1s",
    "unused_after=off",
    "kill_action=end_task",
)


@pytest.fixture
def cluster(agent: Agent) -> Iterator[Cluster]:
    """A pod with the first GPU, which is all that its container sees, in a Job of its own."""
    agent.gpus.set(0, util=0)
    agent.hurry(2)
    with Cluster(agent.folder).served() as made:
        job(made)
        enter(agent, made)
        yield made


def enter(agent: Agent, cluster: Cluster) -> None:
    """Give the agent what Kubernetes gives to the container."""
    agent.environment |= cluster.environment()
    agent.settings.append(f"task.kubernetes.service_account={cluster.folder}")
    cluster.get("", "pods", POD)["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"


def phase(*names: str) -> Any:
    return lambda report: report["phase"] in names


def left(agent: Agent) -> str:
    """Everything that the agent wrote, and what people can ask it for."""
    files = [one for one in agent.folder.rglob("*") if one.is_file() and agent.folder / "account" not in one.parents]
    return "".join(one.read_bytes().decode("utf-8", "replace") for one in files)


def events(cluster: Cluster) -> str:
    """What `kubectl describe pod` shows."""
    return "\n".join(one["message"] for one in list(cluster.objects.values()) if one["kind"] == "Event")


def test_the_job_of_an_idle_pod_is_suspended_and_the_agent_ends_with_the_pod(agent: Agent, cluster: Cluster) -> None:
    """It is told before: what was accepted stands in the record of an agent that got SIGTERM a moment later. The token stands nowhere."""
    agent.start(*QUICK, "mode=live")
    agent.until(lambda _: "patch Job train" in cluster.changes)
    agent.until(lambda _: "accepted: CONFIRMING" in (agent.folder / "log").read_text())
    listed = json.loads(agent.ask("history", "--json").stdout)["incidents"]
    agent.stop()  # as the kubelet does
    assert cluster.changes == ["patch Job train"]
    *_, incident = listed  # a guard that got no processor in time began its window anew
    assert (incident["action"], incident["mode"]) == ("end_task", "live")
    told = events(cluster)
    assert "Suspension of Job train (spec.suspend = true)" in told
    assert "is being ended now" in told
    assert cluster.token not in left(agent)


def test_the_next_pod_of_the_same_name_begins_anew(agent: Agent, cluster: Cluster) -> None:
    """A StatefulSet gives its name and its volume to the next one: neither what was seen of the last pod nor its end is that one's."""
    agent.start(*QUICK, "mode=live")
    agent.until(lambda _: cluster.changes == ["patch Job train"])
    agent.stop()
    cluster.objects.clear()
    cluster.changes.clear()
    job(cluster)
    enter(agent, cluster)
    agent.start(*QUICK, "mode=live", enough=phase("WATCHING"))
    agent.until(lambda _: cluster.changes == ["patch Job train"])


def test_in_dry_run_the_server_is_asked_and_changes_nothing(agent: Agent, cluster: Cluster) -> None:
    """It says what it would do, and the server said that it would."""
    agent.start(*QUICK)
    report = agent.until(phase("DONE"))
    assert cluster.changes == []
    assert ("patch", "jobs", "batch") in cluster.asked
    assert "would have been carried out" in report["sentence"]


def test_a_job_with_another_pod_is_left_alone(agent: Agent, cluster: Cluster) -> None:
    """Its GPUs may work, and nobody sees them from here: a refusal that people read."""
    cluster.pod("another", labels=LABELS)
    agent.start(*QUICK, "mode=live")
    report = agent.until(phase("DONE"))
    assert "Job train also has the pod another" in report["sentence"]
    assert cluster.changes == []


def test_whoever_says_that_this_guard_speaks_for_all_is_believed(agent: Agent, cluster: Cluster) -> None:
    """``task.elsewhere`` is the one word for that, on every scheduler."""
    cluster.pod("another", labels=LABELS)
    agent.start(*QUICK, "mode=live", "task.elsewhere=end")
    agent.until(lambda _: cluster.changes == ["patch Job train"])


def test_a_pod_that_works_goes_on(agent: Agent, cluster: Cluster) -> None:
    """Whatever the API says."""
    agent.gpus.set(0, util=90)
    agent.start(*QUICK, "mode=live")
    began = agent.report()["agent"]["ticked"]
    agent.until(lambda report: report["agent"]["ticked"] > began + 4.0)
    assert (agent.report()["phase"], cluster.changes) == ("WATCHING", [])


def test_a_disruption_budget_keeps_the_pod(agent: Agent) -> None:
    """A veto, told once with its words; nothing goes round it."""
    with Cluster(agent.folder).served() as cluster:
        agent.hurry(2)
        bare(cluster)
        enter(agent, cluster)
        cluster.budgets[POD] = "web"
        agent.start(*QUICK, "mode=live")
        report = agent.until(phase("DONE"))
        assert "disruption budget" in report["sentence"]
        assert cluster.changes == []
        agent.stop()


def test_a_server_that_fails_is_asked_again_and_the_job_suspended_once(agent: Agent, cluster: Cluster) -> None:
    """The change was made, and its answer lost; the request before that got no answer at all."""
    cluster.after = "nothing"
    cluster.fails("patch jobs", "dropped-before", "dropped-after")
    agent.start(*QUICK, "mode=live")
    agent.until(
        lambda _: "began to stop" in (agent.folder / "log").read_text()
    )  # whoever read that it begins reads the end
    assert cluster.changes == ["patch Job train"]
