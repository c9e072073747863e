"""One task of Determined, through the master's REST API: a strict stand-in on loopback."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from costguard.cloud.api import Ticket
from costguard.tasks.api import Place, SchedulerError
from costguard_determined import Determined
from costguard_determined.session import Remote
from tests.schedulers.determined.master import PAGES, TASK, TOKEN, Master, environment, serving

TICKET = Ticket("i1", "a1", 20.0)
KINDS = {
    "NOTEBOOK": ("notebooks", TASK), "SHELL": ("shells", TASK), "COMMAND": ("commands", TASK),
    "TENSORBOARD": ("tensorboards", TASK), "TRIAL": ("trials", "17"),
}  # fmt: skip


@pytest.fixture
def master() -> Iterator[Master]:
    """A master with a notebook of alice, whose token it is."""
    made = Master()
    made.add("notebooks", TASK)
    with serving(made):
        yield made


def session(master: Master, kind: str = "NOTEBOOK", settings: dict[str, object] | None = None, **more: str) -> Remote:
    environ = environment(master.url, kind, trial="17" if kind == "TRIAL" else "", **more)
    place = Place(environ, settings or {}, "/nowhere")
    opened = Determined().open(place, Determined().identify(place))
    assert isinstance(opened, Remote)
    return opened


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_task_is_ended_by_its_own_identifier(kind: str) -> None:
    """A trial has another one than its task: the tool that these come from asks for the kill of a trial with a task's."""
    folder, name = KINDS[kind]
    made = Master()
    made.add(folder, name)
    with serving(made):
        task = session(made, kind)
        facts = task.look(5.0)
        assert (facts.state, facts.owner, facts.gpus, facts.elsewhere, facts.findings) == (
            "running",
            "alice",
            1,
            "",
            (),
        )
        sent = task.end(facts, TICKET)
        assert (sent.status, made.killed) == ("accepted", [f"/api/v1/{folder}/{name}/kill"])
        assert session(made, kind).confirm(TICKET, sent).status == "done"


def test_a_trial_without_its_own_identifier_is_nobody(master: Master) -> None:
    """The task's own would be refused by the master, when it is needed."""
    place = Place(environment(master.url, "TRIAL"), {}, "/nowhere")
    with pytest.raises(SchedulerError, match="DET_TRIAL_ID"):
        Determined().identify(place)


@pytest.mark.parametrize("kind", ["CHECKPOINT_GC", "GENERIC"])
def test_other_kinds_are_not_ended(master: Master, kind: str) -> None:
    """What holds no GPU, or what nobody tried."""
    with pytest.raises(SchedulerError, match=kind):
        Determined().identify(Place(environment(master.url, kind), {}, "/nowhere"))


def test_two_facts_that_do_not_agree_name_no_task(master: Master) -> None:
    """The allocation must be one of the task."""
    place = Place(environment(master.url, DET_ALLOCATION_ID="9999.1"), {}, "/nowhere")
    with pytest.raises(SchedulerError) as changed:
        Determined().identify(place)
    assert changed.value.trouble == "changed"


def ends_itself(master: Master) -> None:
    master.tasks["notebooks", TASK]["state"] = "STATE_TERMINATED"


def forgotten(master: Master) -> None:
    master.tasks.clear()


def anew(master: Master) -> None:
    master.tasks["notebooks", TASK]["startTime"] = "2026-11-24T00:00:00Z"


def is_ending(master: Master) -> None:
    master.tasks["notebooks", TASK]["state"] = "STATE_TERMINATING"


@pytest.mark.parametrize(
    ("meanwhile", "status"), [(ends_itself, "done"), (forgotten, "done"), (anew, "refused"), (is_ending, "accepted")]
)
def test_right_before_the_request_it_is_looked_at_again(
    master: Master, meanwhile: Callable[[Master], None], status: str
) -> None:
    """It may have ended, or begun anew: then nothing is sent."""
    task = session(master)
    facts = task.look(5.0)
    meanwhile(master)
    assert task.end(facts, TICKET).status == status
    assert master.killed == []


def test_another_allocation_is_another_run(master: Master) -> None:
    """A trial that was started again elsewhere is none of this container's business."""
    master.allocations[TASK][0]["allocationId"] = f"{TASK}.2"
    with pytest.raises(SchedulerError, match="restarted somewhere else") as changed:
        session(master).look(5.0)
    assert changed.value.trouble == "changed"


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("STATE_PULLING", "waiting"), ("STATE_QUEUED", "waiting"), ("STATE_PAUSED", "waiting"), ("STATE_RUNNING", "running"),
        ("STATE_ACTIVE", "running"), ("STATE_TERMINATING", "ending"), ("STATE_STOPPING_KILLED", "ending"), ("STATE_CANCELED", "ended"),
    ],
)  # fmt: skip
def test_every_state_has_its_meaning(master: Master, state: str, found: str) -> None:
    """Of tasks and of trials."""
    master.tasks["notebooks", TASK]["state"] = state
    assert session(master).look(5.0).state == found


def test_a_state_that_nobody_knows_is_no_state(master: Master) -> None:
    """It may mean anything."""
    master.tasks["notebooks", TASK]["state"] = "STATE_DREAMING"
    with pytest.raises(SchedulerError, match="DREAMING"):
        session(master).look(5.0)


@pytest.mark.parametrize("answer", list(PAGES))
def test_who_is_not_the_master_says_nothing_of_the_task(master: Master, answer: str) -> None:
    """A proxy's *not found*, or an empty success, is no end of it: not before, not at the request, not afterwards."""
    task = session(master)
    facts = task.look(5.0)
    for call in (lambda: task.look(5.0), lambda: task.end(facts, TICKET), lambda: task.confirm(TICKET, None)):
        master.fails = {"GET": [answer]}
        with pytest.raises(SchedulerError) as error:
            call()
        assert (error.value.technical, error.value.in_doubt) == (True, False)
    assert master.killed == []


@pytest.mark.parametrize("answer", ["no-backend", "no-route", "nothing", "list"])
def test_a_kill_that_somebody_else_answers_ends_nothing(master: Master, answer: str) -> None:
    """Whatever it says, a look shows that the task runs."""
    task = session(master)
    facts = task.look(5.0)
    master.fails = {"POST": [answer]}
    with pytest.raises(SchedulerError) as error:
        task.end(facts, TICKET)
    assert error.value.technical


def test_a_kill_of_what_is_not_found_and_runs_is_no_end(master: Master) -> None:
    """The master may say *not found* for *not allowed*: a look decides."""
    task = session(master)
    facts = task.look(5.0)
    master.fails = {"POST": [404]}
    with pytest.raises(SchedulerError) as error:
        task.end(facts, TICKET)
    assert (error.value.trouble, error.value.technical) == ("gone", False)


@pytest.mark.parametrize("over", [{"endTime": "2026-11-23T09:00:00Z"}, {"state": "STATE_TERMINATED"}])
@pytest.mark.parametrize("state", ["STATE_RUNNING", "STATE_ACTIVE", "STATE_QUEUED"])
def test_a_trial_that_goes_on_in_another_allocation_is_not_ended(state: str, over: dict[str, str]) -> None:
    """Paused and let go on, or moved: the master still lists this container's part, and another one works."""
    made = Master()
    made.add("trials", "17")
    with serving(made):
        task = session(made, "TRIAL")
        facts = task.look(5.0)
        made.allocations[TASK][0] |= over
        made.allocations[TASK].append(
            {"allocationId": f"{TASK}.2", "taskId": TASK, "state": "STATE_RUNNING", "slots": 1}
        )
        made.tasks["trials", "17"]["state"] = state
        for call in (lambda: task.look(5.0), lambda: task.end(facts, TICKET)):
            with pytest.raises(SchedulerError, match="has ended, and trial 17 has not") as error:
                call()
            assert error.value.trouble == "changed"
    assert made.killed == []


def test_a_trial_of_the_same_number_on_another_cluster_is_not_ended() -> None:
    """The configuration names the address of another master, which has a trial 17 of somebody else."""
    made = Master()
    made.add("trials", "17")
    made.older, made.cluster = True, "c-2"
    with serving(made):
        with pytest.raises(SchedulerError, match="cluster c-2") as error:
            session(made, "TRIAL").look(5.0)
        assert (error.value.trouble, error.value.technical) == ("changed", False)
    assert [one for one in made.asked if "trials" in one] == []


@pytest.mark.parametrize("said", [{"taskId": "18.another"}, {"taskIds": ["18.another", "18.other"]}])
def test_a_trial_that_is_none_of_this_task_is_not_ended(said: dict[str, Any]) -> None:
    """A number that came from somewhere else into the environment names another's trial."""
    made = Master()
    made.add("trials", "17", **said)
    with serving(made), pytest.raises(SchedulerError, match="do not match") as error:
        session(made, "TRIAL").look(5.0)
    assert error.value.trouble == "changed"


def test_a_trial_that_has_had_other_tasks_is_this_one(master: Master) -> None:
    """Of all that it has had, one is this container's."""
    master.add("trials", "17", taskId="18.another", taskIds=["18.another", TASK])
    assert session(master, "TRIAL").look(5.0).state == "running"


def test_whoever_repeats_the_token_gets_it_into_no_message(master: Master, tmp_path: Path) -> None:
    """An answer may show what was sent; a token need not look like one."""
    (tmp_path / "token").write_text("a-word-of-the-cluster")
    mine: dict[str, object] = {"token_file": str(tmp_path / "token")}
    master.refusal = "what is a-word-of-the-cluster? unknown"
    with pytest.raises(SchedulerError) as error:
        session(master, settings=mine).look(5.0)
    assert "unknown" in str(error.value)
    assert "a-word-of-the-cluster" not in f"{error.value!r}{error.value}{error.value.told}"


def test_gpus_of_other_agents_may_work(master: Master) -> None:
    """They cannot be seen from here."""
    master.allocations[TASK][0]["slots"] = 8
    found = session(master, DET_SLOT_IDS="[0,1]").look(5.0)
    assert (found.gpus, found.elsewhere) == (2, "6 of its 8 GPUs are on other agents")
    pods = session(master, DET_SLOT_IDS="[0,1]", DET_KUBERNETES_JOB_PARALLELISM="4").look(5.0)
    assert pods.elsewhere == "it runs in 4 pods"


def test_an_older_master_says_less(master: Master) -> None:
    """Without the allocations of a task the container's own word for its GPUs counts."""
    master.older = True
    task = session(master, DET_SLOT_IDS="[0,1]")
    facts = task.look(5.0)
    assert (facts.state, facts.gpus, facts.elsewhere) == ("running", 2, "")
    assert task.end(facts, TICKET).status == "accepted"


def test_the_task_of_somebody_else_is_said(master: Master) -> None:
    """A role may allow it; nobody can ask. An administrator may, and so may the owner."""
    master.me = {"username": "bob", "admin": False}
    found = session(master).look(5.0).findings
    assert [(verdict, finding.code) for verdict, finding in found] == [("consequences", "permission_unknown")]
    master.me["admin"] = True
    assert session(master).look(5.0).findings == ()


@pytest.mark.parametrize(
    ("status", "trouble", "technical"),
    [
        (401, "credentials", True),
        (403, "denied", False),
        (409, "refused", False),
        (429, "throttled", True),
        (500, "internal", True),
        (503, "unreachable", True),
    ],
)
def test_every_refusal_of_a_question_has_its_kind(master: Master, status: int, trouble: str, technical: bool) -> None:
    """And says nothing of the task."""
    master.fails = {"GET": [status]}
    with pytest.raises(SchedulerError, match=f"HTTP {status}: scripted") as error:
        session(master).look(5.0)
    assert (error.value.trouble, error.value.technical, error.value.in_doubt) == (trouble, technical, False)


@pytest.mark.parametrize(
    ("fault", "in_doubt"),
    [(401, False), (403, False), (409, False), (429, False), (500, True), (503, True), ("cut", True), ("page", True)],
)
def test_a_kill_that_failed_is_in_doubt_where_it_may_have_been_taken(
    master: Master, fault: int | str, in_doubt: bool
) -> None:
    """A look showed that the task still runs."""
    master.fails = {"POST": [fault]}
    task = session(master)
    facts = task.look(5.0)
    with pytest.raises(SchedulerError) as error:
        task.end(facts, TICKET)
    assert error.value.in_doubt is in_doubt
    assert len(master.killed) == 1


def test_a_kill_of_what_has_ended_is_done(master: Master) -> None:
    """Between the look and the request."""
    task = session(master)
    facts = task.look(5.0)
    master.on_kill = master.tasks.clear
    assert task.end(facts, TICKET).status == "done"


def test_a_kill_without_an_answer_is_accepted_when_the_task_ends(master: Master) -> None:
    """A look decides."""
    master.fails = {"POST": ["slow-after"]}
    task = session(master)
    facts = task.look(5.0)
    assert task.end(facts, TICKET._replace(deadline=8.0)).status == "accepted"


def test_a_look_that_fails_takes_no_doubt_away(master: Master) -> None:
    """The master hangs with the kill, and then answers nothing else: that is not *nothing was accepted*."""
    task = session(master)
    facts = task.look(5.0)
    master.fails = {"POST": ["slow"], "GET": ["", "", 503]}
    with pytest.raises(SchedulerError) as doubt:
        task.end(facts, TICKET._replace(deadline=8.0))
    assert doubt.value.in_doubt


def test_a_master_that_hangs_is_not_waited_for(master: Master) -> None:
    """Each request has its own end."""
    master.fails = {"GET": ["slow"]}
    began = time.monotonic()
    with pytest.raises(SchedulerError, match=r"no answer within|timed out") as late:
        session(master).look(0.4)
    assert (late.value.trouble, time.monotonic() - began < 5.0) == ("unreachable", True)


def test_a_proxy_of_the_environment_gets_no_token(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    """The master is asked itself, whatever other programs of the container are told."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
    assert session(master).look(5.0).state == "running"


def test_a_redirect_is_not_followed(master: Master) -> None:
    """The token would go wherever it points."""
    master.fails = {"GET": [302]}
    with pytest.raises(SchedulerError, match="HTTP 302"):
        session(master).look(5.0)
    assert len(master.asked) == 1


def test_the_token_may_stand_in_a_file(master: Master, tmp_path: Path) -> None:
    """Of a user with more rights, or where the task's own expires. It stands nowhere else."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    mine: dict[str, object] = {"token_file": str(tmp_path / "token")}
    assert session(master, settings=mine, DET_USER_TOKEN="expired").look(5.0).state == "running"
    assert session(master, DET_USER_TOKEN="", DET_SESSION_TOKEN=TOKEN).look(5.0).state == "running"


@pytest.mark.parametrize("token", ["", "two words", "a\nb", "tök€n", "x" * 3])
def test_what_is_no_token_is_sent_nowhere_or_refused(master: Master, token: str) -> None:
    """And never quoted."""
    with pytest.raises(SchedulerError) as refused:
        session(master, DET_USER_TOKEN=token, DET_SESSION_TOKEN="").look(5.0)
    assert refused.value.trouble == "credentials"
    assert not token or token not in refused.value.told.split("HTTP")[0]


def test_the_master_is_who_its_certificate_says(tmp_path: Path) -> None:
    """As the environment of the task names it: its file, and another name than that of the address. Nobody else gets the token."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "master.crt"))
    made = Master()
    made.add("notebooks", TASK)
    trusted: dict[str, Any] = {
        "DET_MASTER_CERT_FILE": str(tmp_path / "master.crt"),
        "DET_MASTER_CERT_NAME": "determined.example.org",
    }
    with serving(made, authority.issue_cert("determined.example.org").configure_cert):
        assert session(made, **trusted).look(5.0).state == "running"
        made.asked.clear()
        wrong: dict[str, Any]
        for wrong in (trusted | {"DET_MASTER_CERT_NAME": "other.example.org"}, {"DET_MASTER_CERT_FILE": ""}):
            with pytest.raises(SchedulerError, match="certificate") as refused:
                session(made, **wrong).look(5.0)
            assert (refused.value.trouble, refused.value.in_doubt, made.asked) == ("unreachable", False, [])
        assert session(made, DET_MASTER_CERT_FILE="noverify").look(5.0).state == "running"


def test_a_certificate_that_cannot_be_read_is_named(master: Master, tmp_path: Path) -> None:
    """And nobody is asked without it."""
    (tmp_path / "master.crt").write_text("nothing")
    address: dict[str, object] = {"master": master.url.replace("http:", "https:")}
    with pytest.raises(SchedulerError, match="DET_MASTER_CERT_FILE") as error:
        session(master, settings=address, DET_MASTER_CERT_FILE=str(tmp_path / "master.crt")).look(5.0)
    assert (error.value.trouble, master.asked) == ("credentials", [])


@pytest.mark.parametrize("address", ["", "master", "ftp://master", "http://", "http://[::1"])
def test_what_is_no_address_is_asked_nothing(master: Master, address: str) -> None:
    """The hint names the option."""
    with pytest.raises(SchedulerError, match="not the address") as refused:
        session(master, settings={"master": address}, DET_MASTER=address or "x").look(5.0)
    assert "[task.determined]" in refused.value.hint


def test_whose_process_it_is(master: Master, tmp_path: Path) -> None:
    """By the allocation in its environment, where containers share the machine's processes."""
    for pid, text in {
        "10": f"A=1\0DET_ALLOCATION_ID={TASK}.1\0",
        "11": "DET_ALLOCATION_ID=other.1\0",
        "12": "HOME=/\0",
    }.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_text(text)
    place = Place(environment(master.url), {}, str(tmp_path))
    task = Determined().identify(place)
    assert [Determined().belongs(place, task, pid) for pid in (10, 11, 12, 13)] == [True, False, None, None]
