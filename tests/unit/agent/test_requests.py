"""What users of the machine may write to the control socket: nothing costs anybody else the watch."""

import contextlib
import json
import os
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.agent.requests import CHANGES_BURST, CHANGES_EVERY_SECONDS
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimHost, SimOff, Watch, effective

ALICE, BOB = os.geteuid() + 1000, os.geteuid() + 1001
"""Neither root nor the agent's own user."""

HUGE = b"9" * 401
RUDE = [
    b"[" * 60000,
    b'{"command":' * 9000,
    b'{"command":"hold","seconds":' + HUGE + b"}",
    b'{"command":"hold","seconds":-' + HUGE + b"}",
    b'{"command":"hold","seconds":1e999}',
    b'{"command":"hold","seconds":NaN}',
    b'{"command":"hold","seconds":true}',
    b'{"command":"hold","seconds":"1"}',
    b'{"command":"hold","seconds":60,"reason":"\\ud800\\u001b[2J"}',
    b'{"command":"hold","seconds":60,"reason":{"a":["b"]}}',
    b'{"command":["status"]}',
    b'{"command":{"a":1}}',
    b'"status"',
    b"\xff\xfe",
    b"",
]


class Ears(Watch):
    """What clients and the journal hear."""

    def __init__(self) -> None:
        self.answers: dict[int, list[dict[str, Any]]] = {}
        self.journal: list[str] = []

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        self.answers.setdefault(client, []).append(json.loads(answer))

    def said(self, now: Instant, line: str) -> None:
        self.journal.append(line)


def idle(ears: Ears, until: float, kind: type[SimHost] = SimHost, **policy: Any) -> tuple[SimHost, Loop]:
    """A guard on a machine that worked for ten minutes and is idle since."""
    machine = Machine(gpus=1, script=[Phase(600.0, 0.9)])
    host = kind(machine, seed=3, until=until, watch=ears)
    return host, Loop(host, effective(mode="live", kill_action="shutdown", **policy), host.start())


def ask_at(host: SimHost, when: float, asked: dict[str, Any] | bytes, uid: int = ALICE) -> None:
    """A client asks at this virtual moment."""

    def ask() -> None:
        host.request(uid, asked)

    host.world.at(when, ask)


@pytest.mark.parametrize("line", RUDE, ids=range(len(RUDE)))
def test_a_rude_request_is_answered_and_forgotten(line: bytes) -> None:
    """Twenty times in a countdown: each is answered once, and only a granted hold makes the stop later."""
    ends = []
    for asked in (0, 20):
        ears = Ears()
        host, loop = idle(ears, 7200.0, kill_duration=900.0, grace=300.0, hold_max=60.0, hold_total=60.0)
        for n in range(asked):
            ask_at(host, 1600.0 + n, line)
        with pytest.raises(SimOff):
            loop.run()
        ends.append(host.now)
        assert not [said for said in ears.journal if "BUG" in said]
        assert [len(said) for said in ears.answers.values()] == [1] * asked
    granted = any(said["done"] for client in ears.answers.values() for said in client)
    later = 60.0 + 300.0 if granted else 0.0  # after a hold people are warned again
    assert ends[0] <= ends[1] <= ends[0] + later + 35.0  # the simulated power takes up to 35 s to go


class Broken(SimHost):
    """A host on which something that only `status` needs fails."""

    def unreaped(self, program: str = "") -> int:
        if program == "nvml" and self.now > 1500.0:
            raise LookupError("no such thing")
        return super().unreaped(program)


def test_a_bug_in_a_request_is_the_askers_alone() -> None:
    """It is told once and refused; the countdown goes on and the guard does not end."""
    ears = Ears()
    host, loop = idle(ears, 3600.0, Broken, kill_duration=900.0, grace=300.0)
    for n in range(20):
        ask_at(host, 1600.0 + n, {"command": "status"})
    with pytest.raises(SimOff):
        loop.run()
    assert len(ears.answers) == 20
    assert all(len(said) == 1 and said[0]["done"] is False for said in ears.answers.values())
    assert len([said for said in ears.journal if "BUG" in said]) == 1
    assert host.now < 600.0 + 900.0 + 300.0 + 120.0


def test_a_very_long_hold_is_cut_to_what_the_configuration_allows() -> None:
    """A number that no clock holds is granted as far as any other."""
    ears = Ears()
    host, loop = idle(ears, 700.0)
    ask_at(host, 650.0, b'{"command":"hold","seconds":' + HUGE + b"}")
    loop.run()
    assert ears.answers[1][0]["done"] is True
    (hold,) = loop.last.state.core.people.holds
    assert hold.until <= loop.last.state.at + loop.policy.hold_max


@pytest.mark.parametrize("uid", [0, ALICE], ids=["root", "another"])
@pytest.mark.parametrize("given", ["alice", "root", None, 7, "root (uid 0)\x1b[2J\n", "x" * 60000])
def test_an_owner_is_the_kernels_user_whatever_he_calls_himself(uid: int, given: object) -> None:
    """A client proves no name; and a user database that hangs would stop the ticks."""
    ears = Ears()
    host, loop = idle(ears, 700.0)
    ask_at(host, 650.0, {"command": "hold", "seconds": 600, "user": given}, uid)
    loop.run()
    assert [hold.owner for hold in loop.last.state.core.people.holds] == [f"uid {uid}"]


def test_a_user_who_holds_and_releases_all_the_time_is_told_to_wait() -> None:
    """Each hold is told and recorded; others, root and the own `status` are not affected, and the allowance fills up again."""
    ears = Ears()
    host, loop = idle(ears, 900.0)
    for number in range(CHANGES_BURST + 5):
        ask_at(host, 650.0 + number, {"command": ("hold", "release")[number % 2], "seconds": 60}, ALICE)
    ask_at(host, 700.0, {"command": "hold", "seconds": 60}, BOB)
    ask_at(host, 701.0, {"command": "hold", "seconds": 60}, 0)
    ask_at(host, 702.0, {"command": "status"}, ALICE)
    ask_at(host, 650.0 + CHANGES_BURST + CHANGES_EVERY_SECONDS, {"command": "hold", "seconds": 60}, ALICE)
    loop.run()
    said = [answers[0] for answers in ears.answers.values()]
    refused = ["too many" in str(answer.get("words")) for answer in said]
    assert refused == [False] * CHANGES_BURST + [True] * 5 + [False] * 4


@pytest.mark.parametrize(("uid", "granted"), [(os.geteuid() + 1, False), (0, True)], ids=["another", "root"])
def test_a_stop_by_hand_is_for_root_and_the_agents_own_user(uid: int, granted: bool) -> None:
    """Anybody may postpone; ending the machine under everybody is for those who could do it anyway."""
    ears = Ears()
    host, loop = idle(ears, until=700.0)
    ask_at(host, 300.0, {"command": "stop", "user": "alice"}, uid)
    with contextlib.suppress(SimOff):
        loop.run()
    (answer,) = next(iter(ears.answers.values()))
    assert answer["done"] is granted
    assert ("shutdown begins" in answer["words"]) is granted
    assert (host.world.now < 690.0 + host.world.boot_zero) is granted


class Account(Ears):
    """As `Ears`, and when the command ran."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: list[float] = []

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.acts.append(now.boot)


@pytest.mark.parametrize("name", ["root", "eve", None])
def test_a_user_does_not_end_roots_hold_or_make_the_command_run_again(name: str | None) -> None:
    """The kernel's user id decides, whatever name a client gives: root's hold lasts, and one idle period is one command."""
    ears = Account()
    host = SimHost(Machine(gpus=1, script=[Phase(600.0, 0.9)]), seed=3, until=20000.0, watch=ears)
    policy = effective(mode="live", kill_action="command", kill_duration=900.0, grace=300.0)
    loop = Loop(host, policy, host.start())
    ask_at(host, 650.0, {"command": "hold", "seconds": 7200, "user": "root"}, uid=0)
    for when in range(700, 19000, 400):
        ask_at(host, float(when), {"command": "release", "user": name}, uid=BOB)
    loop.run()
    assert len(ears.acts) == 1
    assert ears.acts[0] >= 650.0 + 7200.0
    refused = [said[0] for said in ears.answers.values() if not said[0]["done"]]
    assert any("the hold of uid 0" in said["words"] for said in refused)
    assert any("the pause until work is seen" in said["words"] for said in refused)
    assert all("root" in said["words"] for said in refused)


def test_root_releases_everything_and_status_shows_what_is_left() -> None:
    """Holds with their user ids, the seconds that users have left, and after root's release all of them again."""
    ears = Ears()
    host, loop = idle(ears, 1500.0, kill_duration=7200.0)
    for uid in (ALICE, BOB):
        ask_at(host, 650.0 + (uid - ALICE), {"command": "hold", "seconds": 86400, "user": f"u{uid}"}, uid)
    ask_at(host, 700.0, {"command": "status"}, 1003)
    ask_at(host, 720.0, {"command": "release"}, uid=0)
    ask_at(host, 740.0, {"command": "status"}, 1003)
    loop.run()
    before, after = ears.answers[3][0], ears.answers[5][0]
    assert [hold["uid"] for hold in before["holds"]] == [ALICE, BOB]
    assert before["hold_left"] == pytest.approx(86400.0, abs=5.0)
    assert ears.answers[4][0]["words"] == f"released: the holds of uid {ALICE}, uid {BOB}"
    assert after["holds"] == []
    assert after["hold_left"] == pytest.approx(3 * 86400.0, abs=300.0)


def test_a_user_moves_the_deadline_and_status_shows_who_did() -> None:
    """Within the owner's limit; and a machine without a deadline has none to move."""
    ears = Ears()
    host, loop = idle(ears, 1500.0, kill_duration=7200.0, lifetime=36000.0, extend_max=7200.0)
    ask_at(host, 650.0, {"command": "hold", "seconds": 86400, "past_deadline": True, "reason": "a\nrun"}, ALICE)
    ask_at(host, 700.0, {"command": "status"}, BOB)
    ask_at(host, 710.0, {"command": "release"}, uid=0)
    ask_at(host, 740.0, {"command": "status"}, BOB)
    loop.run()
    moved, left = ears.answers[2][0]["deadline"], ears.answers[4][0]["deadline"]
    assert (moved["limit"], moved["extended"]["uid"], moved["extended"]["reason"]) == ("lifetime", ALICE, "a run")
    assert moved["extended"]["until"] == pytest.approx(moved["at"] + 7200.0, abs=1.0)
    assert ears.answers[2][0]["deadline_at"] == pytest.approx(moved["extended"]["until"], abs=1.0)
    assert ears.answers[2][0]["holds"] == [], "nothing else is held"
    assert "extension of the deadline by" in ears.answers[3][0]["words"]
    assert left["extended"] is None


@pytest.mark.parametrize("between", ["\n", "\r\n\n", "\u2028", "\x0b", "\x85", "\x1c", "\x1b", "\x9b", "\u202e"])
def test_the_reason_of_a_hold_is_one_line(between: str) -> None:
    """What a user writes stands within the agent's message on everybody's terminal: it must not look like another line of it."""
    ears = Ears()
    host, loop = idle(ears, 700.0)
    ask_at(
        host, 650.0, {"command": "hold", "seconds": 600, "reason": f"x{between}WARNING: this machine ends now"}, ALICE
    )
    loop.run()
    (hold,) = loop.last.state.core.people.holds
    assert hold.reason == "x WARNING: this machine ends now"


def test_what_it_was_started_with_is_for_its_administrators_alone() -> None:
    """Its variables may hold what no other user is to read."""
    ears = Ears()
    host, loop = idle(ears, 200.0)
    loop.config |= {"arguments": {"set": ["grace=5m"]}, "environment": {"COSTGUARD_SINK__URL": "https://x"}}
    ask_at(host, 100.0, {"command": "begun"}, ALICE)
    ask_at(host, 101.0, {"command": "begun"}, 0)
    loop.run()
    refused, told = (answers[0] for answers in ears.answers.values())
    assert refused["done"] is False
    assert "COSTGUARD" not in json.dumps(refused)
    assert told == {"arguments": {"set": ["grace=5m"]}, "environment": {"COSTGUARD_SINK__URL": "https://x"}}
