"""A guard that ends: its last words reach people, and nothing keeps it for long."""

import json
from typing import Any

import pytest

from costguard.agent.leaving import LAST_MESSAGES_SECONDS
from costguard.agent.loop import Loop
from costguard.host.files import COMMITMENTS, STATE
from costguard.host.ports import Instant
from costguard.notify.job import AGENT_ENDED, IN_DOUBT
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, Watch, effective


class Messages(Watch):
    """What reached people."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.lines: list[str] = []
        self.stopping = 0.0

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        if delivered:
            self.got.append(message["kind"])

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)

    def served(self, now: Instant, message: str) -> None:
        if message == "STOPPING=1":
            self.stopping = now.boot


class Mute(Faults):
    """No message gets out."""

    def take(self, subject: str, host: SimHost) -> str:
        return "hang" if subject == "notify" else ""


def test_a_crash_of_the_machine_takes_back_unused_time_that_unknown_has_ended() -> None:
    """I1: what was quiet before a GPU could not be read does not count in the next boot, also when the power fails at once."""
    dark = Phase(120.0, 0.0, unknown={0: "NVML 15: GPU is lost"})
    machine = Machine(gpus=1, script=[Phase(4000.0), dark, Phase(60.0)], counters=False)
    host = SimHost(machine, seed=3, until=4150.0)
    found: list[float] = []
    for when in (3990.0, 4110.0):
        host.world.at(when, lambda: found.append(json.loads(host.world.disk[COMMITMENTS])["data"]["unused"]))
    Loop(host, effective(unused_after=7200.0), host.start()).run()
    assert found[0] > 1000.0
    assert found[1] < 60.0


def test_a_crash_of_the_machine_right_after_it_woke_up_takes_back_unused_time_of_before() -> None:
    """I7: a resume counts as a start; what is committed in the moment in which it wakes up is not older than that."""
    host = SimHost(Machine(gpus=1, script=[]), seed=3, until=9000.0)
    found: list[float] = []

    def wake() -> None:
        host.world.suspend(5000.0)
        host.request(0, {"command": "hold", "seconds": 3600, "reason": "a run"})
        host.world.after(5.0, lambda: found.append(json.loads(host.world.disk[COMMITMENTS])["data"]["unused"]))

    host.world.at(2005.0, wake)
    Loop(host, effective(unused_after=7200.0), host.start()).run()
    assert found[0] < 60.0


def test_what_is_sent_again_ends_with_the_guard() -> None:
    """A remark is on its way when the guard is told to end; no process of it stays, and the next guard of this boot sends it."""
    host = SimHost(Machine(gpus=1, script=[]), faults=Mute(), until=9000.0)
    host.world.synced = False
    seen: list[int] = []

    def look() -> None:
        if telling := [child for child, program in host.children.items() if type(program).__name__ == "Notifier"]:
            seen.extend(telling)
            host.signal("TERM")
        else:
            host.world.after(1.0, look)

    host.world.at(3500.0, look)
    config = effective(unused_after=None, arm_duration=60.0, lease_until=host.world.wall_offset + 7 * 86400.0)
    Loop(host, config, host.start()).run()
    assert seen
    assert not [child for child in seen if child in host.children]
    assert "clock" in host.world.runtime[STATE].decode()


def test_a_guard_that_lost_its_state_commits_no_time_asleep_as_running_time() -> None:
    """A lifetime and a budget count running time alone, also should the power fail right after the state was lost."""
    host = SimHost(Machine(gpus=1, script=[]), seed=3, until=9000.0)
    host.world.at(1000.0, lambda: host.world.suspend(5000.0))
    Loop(host, effective(lifetime=1e6), host.start()).run()
    del host.world.runtime[STATE]
    again = SimHost(world=host.world, until=host.world.now + 60.0)
    found: list[float] = []
    again.world.after(0.3, lambda: found.append(json.loads(again.world.runtime[COMMITMENTS])["data"]["ran"]))
    Loop(again, effective(lifetime=1e6), again.start()).run()
    assert found[0] < 4100.0


@pytest.mark.parametrize(("later", "kept"), [(3600.0, True), (7200.0, False)])
def test_a_start_under_another_policy_commits_no_unused_time_of_before(later: float, kept: bool) -> None:
    """I7: a full time is needed under the new policy, also should the power fail right after the start."""
    host = SimHost(Machine(gpus=1, script=[]), seed=3, until=2000.0)
    Loop(host, effective(unused_after=3600.0), host.start()).run()
    again = SimHost(world=host.world, until=host.world.now + 60.0)
    found: list[float] = []
    again.world.after(0.01, lambda: found.append(json.loads(again.world.runtime[COMMITMENTS])["data"]["unused"]))
    Loop(again, effective(unused_after=later), again.start()).run()
    assert (found[0] > 1000.0) is kept


def ended(faults: Faults, mode: str = "live") -> tuple[Messages, float]:
    """A guard whose action is to end itself; gives what people got, and how long the end took."""
    messages = Messages()
    machine = Machine(gpus=1, script=[Phase(600.0, 0.9)])
    host = SimHost(machine, seed=3, until=7200.0, watch=messages, faults=faults)
    config = effective(mode=mode, kill_action="end_process", kill_duration=900.0, grace=300.0)
    assert Loop(host, config, host.start()).run() == 0
    return messages, host.clock().boot - messages.stopping


def test_the_last_words_of_an_ended_process_are_delivered() -> None:
    """That it ends, and that it ended as it should: both are waited for."""
    messages, seconds = ended(Faults())
    assert set(messages.got[-2:]) == {"acting", "done"}
    assert seconds < LAST_MESSAGES_SECONDS


def test_the_last_line_says_that_nobody_watches() -> None:
    """However it ends by intention: silence would read as if it went on."""
    assert ended(Faults())[0].lines[-1] == "<5>stopped; this machine is no longer guarded"


def test_messages_that_hang_do_not_keep_the_guard() -> None:
    """Five seconds, then it ends all the same."""
    messages, seconds = ended(Mute())
    assert messages.got == []
    assert seconds == pytest.approx(LAST_MESSAGES_SECONDS, abs=0.2)


class Unasked(Mute):
    """Nor can anybody ask the record what became of one."""

    def take(self, subject: str, host: SimHost) -> str:
        return "fails" if subject == "spawn:recall" else super().take(subject, host)


@pytest.mark.parametrize("faults", [Mute(), Unasked()])
def test_messages_that_the_end_cut_off_are_in_the_record(faults: Faults) -> None:
    """Nobody knows whether they arrived: who reads the history later must not take them for delivered, nor for never sent."""
    host = SimHost(Machine(gpus=1, script=[Phase(600.0, 0.9)]), seed=3, until=7200.0, faults=faults)
    Loop(host, effective(mode="live", kill_action="end_process", kill_duration=900.0), host.start()).run()
    rows = [json.loads(row["data"]) for b in host.world.history for row in b["events"] if row["kind"] == "delivery"]
    cut = {row["name"]: set(row["failed"].values()) for row in rows}
    assert cut == {"acting": {f"{AGENT_ENDED}; {IN_DOUBT}"}, "done": {f"{AGENT_ENDED}; {IN_DOUBT}"}}


class Slow(Faults):
    """Each message takes four seconds."""

    def take(self, subject: str, host: SimHost) -> str:
        return "slow" if subject == "notify" else ""


def test_what_came_of_a_message_seconds_after_the_end_began_is_in_the_record() -> None:
    """It is waited for, and then for the disk; else who reads the history later sees a message of which nothing is known."""
    host = SimHost(Machine(gpus=1, script=[Phase(600.0, 0.9)]), seed=3, until=7200.0, faults=Slow())
    Loop(host, effective(mode="live", kill_action="end_process", kill_duration=900.0), host.start()).run()
    rows = [(row["kind"], json.loads(row["data"])) for batch in host.world.history for row in batch["events"]]
    told = {data["effect"]: data["name"] for kind, data in rows if kind == "told"}
    known = {told[data["effect"]] for kind, data in rows if kind == "outcome" and data["effect"] in told}
    assert {"acting", "done"} <= known


def test_a_second_request_to_end_is_obeyed_at_once() -> None:
    """Whoever asks twice waits no longer for the warning that is on its way."""
    messages = Messages()
    host = SimHost(Machine(gpus=1), seed=3, until=930.0, watch=messages, faults=Mute())
    loop = Loop(host, effective(mode="live", unused_after=900.0, boot_grace=0.0), host.start())
    host.world.at(931.0, lambda: host.signal("TERM"))
    loop.run()
    assert host.clock().boot - messages.stopping == pytest.approx(1.0, abs=0.1)


def test_a_check_of_a_configuration_is_not_left_behind() -> None:
    """Reloaded and told to end in the same moment: nobody would hear what the check finds."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=7200.0)
    loop = Loop(host, effective(), host.start())

    def both() -> None:
        host.signal("HUP")
        host.signal("TERM")

    host.world.at(1000.0, both)
    assert loop.run() == 0
    assert host.now < 1010.0
    assert "Configurer" not in [type(program).__name__ for program in host.children.values()]


def told(mode: str, until: float) -> list[str]:
    """What people got of a machine that idles from its start, whose guard is ended at that time and started again later."""
    messages, again = Messages(), Messages()
    config = effective(mode=mode, kill_duration=300.0, unused_after=300.0, grace=600.0, boot_grace=0.0)
    host = SimHost(Machine(gpus=1, script=[]), seed=3, until=until, watch=messages)
    Loop(host, config, host.start()).run()
    later = SimHost(world=host.world, until=host.world.now + 60.0, watch=again)
    Loop(later, config, later.start()).run()
    return [*messages.got, "-", *again.got]


def test_people_hear_that_a_countdown_has_lost_its_guard_and_that_it_has_one_again() -> None:
    """They were told of a stop, and then that it does not come: they have the whole countdown once it may come again."""
    assert told("live", 600.0) == ["warning", "unguarded", "-", "warning", "unguarded"]


@pytest.mark.parametrize(("mode", "until"), [("dry-run", 600.0), ("live", 200.0)])
def test_an_end_that_changes_nothing_for_people_is_no_news(mode: str, until: float) -> None:
    """Nobody counts on a stop that was never announced, nor on that of a dry run."""
    assert "unguarded" not in told(mode, until)[:3]
