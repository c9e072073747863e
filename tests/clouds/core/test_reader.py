"""The cloud reader as a real process, and the guard's side of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from costguard.actions.base import Host
from costguard.actions.choose import choose
from costguard.agent.cloudside import NEAR, CloudSide
from costguard.agent.moments import share
from costguard.agent.ports import Ended, Line
from costguard.engine.events import Finding, Notice
from costguard.engine.policy import Policy
from costguard.readers.cloud import Eyes
from costguard.readers.cloud_tags import asks, mistakes, settings
from tests.clouds.core.conftest import EXAMPLE, Rented
from tests.contract.cloud_server import Cloud

READER = "import sys; from costguard.readers import cloud; sys.exit(cloud.main())"


class Process:
    """The reader, asked line by line."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", READER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(EXAMPLE)},
        )
        self.number = 0
        self.write(job)

    def write(self, message: dict[str, Any]) -> None:
        assert self.child.stdin
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def read(self) -> dict[str, Any]:
        self.number += 1
        self.write({"read": self.number})
        assert self.child.stdout
        answer = json.loads(self.child.stdout.readline())
        assert answer["read"] == self.number
        assert isinstance(answer, dict)
        return answer

    def end(self) -> int:
        assert self.child.stdin
        assert self.child.stdout
        self.child.stdin.close()
        code = self.child.wait(10)
        self.child.stdout.close()
        return code


@pytest.fixture
def job(rented: Rented) -> dict[str, Any]:
    given = rented.job("plan")
    return {"providers": given["providers"], "cloud": given["cloud"], "host": given["host"], "wait": 0}


@pytest.fixture
def reader(job: dict[str, Any]) -> Iterator[Process]:
    process = Process(job)
    yield process
    assert process.end() == 0


def test_it_says_who_this_machine_is_and_what_it_costs(reader: Process) -> None:
    """Identity with its evidence, the list price with its date, and no notice."""
    answer = reader.read()
    assert answer["cloud"] == "Example Cloud"
    assert answer["identity"]["instance"] == "m-42"
    assert answer["identity"]["evidence"] == ["firmware tag m-42", "metadata id m-42"]
    assert (answer["price"]["amount"], answer["price"]["date"]) == (4.0, "2026-01-01")
    assert (answer["notices"], answer["asks"], "error" in answer) == ([], [], False)


def test_a_notice_is_seen_at_the_next_read(reader: Process, cloud: Cloud) -> None:
    """It has as many seconds as are left, by this machine's own date."""
    reader.read()
    cloud.notices = [{"id": "n1", "kind": "stop", "at": None, "words": "taken back"}]
    assert reader.read()["notices"] == [["n1", "stop", None, "taken back"]]
    cloud.notices = [{"id": "n2", "kind": "stop", "at": 0.0, "words": "long ago"}]
    (notice,) = reader.read()["notices"]
    assert notice[2] < -1e9


def test_who_it_is_is_asked_once(reader: Process, cloud: Cloud) -> None:
    """Only notices are asked for at every read."""
    for _ in range(5):
        reader.read()
    assert [call for call in cloud.calls if "notices" not in call] == ["GET /machine", "GET /tags"]


def test_a_service_that_fails_is_left_alone_for_a_while(reader: Process, cloud: Cloud) -> None:
    """What was known stays, and the reader answers at once."""
    cloud.tags = {"costguard": "off"}
    reader.read()
    cloud.fail["/notices"] = 503
    first = reader.read()
    asked = len(cloud.calls)
    again = reader.read()
    assert len(cloud.calls) == asked
    assert "503" in first["error"]
    assert "503" in again["error"]
    assert again["identity"]["instance"] == "m-42"
    assert again["asks"] == [["costguard = off", None]]


def test_announcements_that_fail_do_not_hide_the_tags(reader: Process, cloud: Cloud) -> None:
    """A tag may be all that keeps the machine up."""
    cloud.fail["/notices"] = 503
    cloud.tags = {"costguard": "off"}
    answer = reader.read()
    assert "503" in answer["error"]
    assert answer["asks"]


def test_announcements_that_fail_for_hours_do_not_delay_the_tags(
    rented: Rented, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question has its own pause: a tag that keeps the machine up is seen within a minute or so."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    job = rented.job("plan")
    now = [0.0]
    eyes = Eyes(choose(job["providers"], job["cloud"], Host.of(job["host"])), wait=0.0, clock=lambda: now[0])
    cloud.fail["/notices"] = 503
    for now[0] in range(0, 7200, 10):
        eyes.look()
    asked = len([call for call in cloud.calls if "notices" in call])
    assert 20 < asked < 40, "ever more rarely, at last every five minutes"
    assert "503" in eyes.error
    cloud.tags = {"costguard": "off"}
    for now[0] in range(7200, 7280, 10):
        eyes.look()
    assert eyes.tags == {"costguard": "off"}
    del cloud.fail["/notices"]
    for now[0] in range(7280, 7600, 10):
        eyes.look()
    assert eyes.error == ""


def test_a_reader_that_never_saw_the_tags_says_so(reader: Process, cloud: Cloud) -> None:
    """Unknown is not *nothing*: an escape hatch that an earlier reader saw stays open."""
    cloud.fail["/machine"] = 500
    answer = reader.read()
    assert (answer["asks"], answer["identity"]) == (None, None)
    assert "500" in answer["error"]


def test_without_a_cloud_it_says_so(job: dict[str, Any], rented: Rented, cloud: Cloud) -> None:
    """And asks nobody."""
    rented.dmi(sys_vendor="QEMU")
    process = Process(job)
    assert "no plug-in knows" in process.read()["none"]
    assert process.end() == 0
    assert cloud.calls == []


def test_it_waits_before_its_first_question(job: dict[str, Any], cloud: Cloud) -> None:
    """A fleet that boots together asks one after the other."""
    process = Process({**job, "wait": 60})
    assert process.read()["identity"] is None
    assert process.end() == 0
    assert cloud.calls == []


def test_it_loads_no_sdk_and_nothing_heavy(job: dict[str, Any]) -> None:
    """It stays for weeks beside a training job."""
    program = (
        "import sys, costguard.readers.cloud; heavy = {'pydantic', 'click', 'rich', 'asyncio', 'logging', 'sqlite3', 'boto3',"
        " 'google', 'azure', 'http', 'ssl'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ({"costguard": "off"}, [["costguard = off", None]]),
        ({"CostGuard": " OFF "}, [["costguard = OFF", None]]),
        ({"costguard": "on"}, []),
        ({"costguard-hold": "1970-01-01T00:20:00+00:00"}, [["costguard-hold until 1970-01-01T00:20:00+00:00", 200.0]]),
        ({"Costguard_Hold": "1970-01-01T00:20:00Z"}, [["costguard-hold until 1970-01-01T00:20:00Z", 200.0]]),
        ({"costguard-hold": "1970-01-01T00:10:00Z"}, []),
        ({"costguard-hold": "1970-01-01T00:20:00"}, []),
        ({"costguard-hold": "tomorrow"}, []),
        ({"Name": "trainer", "costguard-mode": "live"}, []),
    ],
)
def test_what_tags_can_ask_for(tags: dict[str, str], found: list[object]) -> None:
    """To stay up, for ever or until a moment with its offset; nothing else, and never less care."""
    assert asks(tags, 1000.0) == found


@pytest.mark.parametrize(
    ("until", "complaints"),
    [("1970-01-01T00:20:00Z", 0), ("", 0), ("1970-01-01T00:20:00", 1), ("tomorrow", 1), ("2h", 1)],
)
def test_a_hold_that_is_no_date_is_told(reader: Process, cloud: Cloud, until: str, complaints: int) -> None:
    """Nobody shall believe that a machine is held which is not; no setting allows or forbids that word."""
    assert len(mistakes({"costguard-hold": until})) == complaints
    cloud.tags = {"costguard-hold": until}
    assert len(reader.read()["nonsense"]) == complaints


@pytest.mark.parametrize(
    ("tags", "found", "complaints"),
    [
        ({"costguard-kill-duration": "2h", "Costguard_Grace": " 30m "}, {"kill_duration": 7200.0, "grace": 1800.0}, 0),
        ({"costguard-unused-after": "off"}, {"unused_after": None}, 0),
        ({"costguard-kill-threshold": "2%", "costguard-boot-grace": "1800"}, {"kill_threshold": 0.02, "boot_grace": 1800.0}, 0),
        ({"costguard-kill-duration": "1d12h", "costguard-grace": "1h30m"}, {"kill_duration": 129600.0, "grace": 5400.0}, 0),
        ({"costguard-kill-duration": "long"}, {}, 1),
        ({"costguard-grace": "off"}, {}, 1),
        ({"costguard-mode": "live", "costguard-kill-action": "terminate", "costguard-price-per-hour": "1"}, {}, 0),
    ],
)  # fmt: skip
def test_which_settings_tags_can_name(tags: dict[str, str], found: dict[str, float | None], complaints: int) -> None:
    """Five, in the words of the configuration; a mistake is told, and everything else is nobody's business."""
    wanted, nonsense = settings(tags)
    assert wanted == found
    assert len(nonsense) == complaints


class Port:
    """A host with no process: what is sent to the reader is kept."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.spawned: list[tuple[str, dict[str, Any]]] = []

    def spawn(self, program: str, job: bytes) -> int:
        self.spawned.append((program, json.loads(job)))
        return len(self.spawned)

    def send(self, child: int, line: bytes) -> bool:
        self.sent.append(line)
        return True

    def kill(self, child: int) -> None:
        pass

    def unreaped(self, program: str = "") -> int:
        return 0


CONFIG: dict[str, Any] = {"providers": ["example=costguard_example"], "cloud": {"provider": "auto"}, "host": {}}


class Guard:
    """The guard's side with a scripted reader."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.port = Port()
        self.troubles: list[str | None] = []
        self.side = CloudSide(
            self.port,  # type: ignore[arg-type]  # of the port it uses these four methods alone
            config or CONFIG,
            "dmi:1",
            lambda subject, words: self.troubles.append(words) if subject == "cloud" else None,
        )

    def answer(self, now: float, *notices: list[object], **more: object) -> list[Any]:
        """Ask, and have this answered."""
        self.side.ask(now)
        number = json.loads(self.port.sent[-1])["read"]
        said = {"read": number, "cloud": "Example", "identity": None, "price": None, "asks": []}
        said |= {"settings": {}, "nonsense": []}
        line = json.dumps({**said, "notices": notices, **more}).encode()
        return self.side.take(Line(len(self.port.spawned), line), now)


@pytest.mark.parametrize(("mode", "asked"), [("live", True), ("dry-run", False), ("LIVE", False)])
def test_a_dry_run_asks_nothing_that_has_an_effect(mode: str, asked: bool) -> None:
    """A question that switches announcements on delays other people's restarts."""
    wanted = {**CONFIG, "policy": {"mode": mode}, "cloud": {**CONFIG["cloud"], "scheduled_events": True}}
    guard = Guard(wanted)
    guard.side.ask(0.0)
    assert guard.port.spawned[0][1]["cloud"]["scheduled_events"] is asked


def test_a_notice_becomes_an_event_once() -> None:
    """Moved by a lot, it is another one."""
    guard = Guard()
    assert guard.answer(100.0, ["n", "stop", 90.0, "taken"]) == [Notice(100.0, 190.0, "Example announces: taken")]
    assert guard.answer(110.0, ["n", "stop", 80.0, "taken"]) == []
    assert guard.answer(120.0, ["n", "stop", 400.0, "taken"]) == [Notice(120.0, 520.0, "Example announces: taken")]


@pytest.mark.parametrize("kind", ["freeze", "reboot", "stop"])
def test_an_announcement_without_a_date_names_none(kind: str) -> None:
    """The engine counts with a moment, and knows that it is a guess; the kind goes with it."""
    (notice,) = Guard().answer(100.0, ["n", kind, None, "soon"])
    assert (notice.due, notice.kind, notice.dated) == (130.0, kind, False)


def test_what_lies_far_ahead_is_told_and_blocks_nothing() -> None:
    """Maintenance in ten days must not keep an idle machine up for ten days; when it comes near, it counts."""
    guard = Guard()
    (far,) = guard.answer(0.0, ["n", "reboot", 864000.0, "maintenance"])
    assert isinstance(far, Finding)
    assert guard.answer(10.0, ["n", "reboot", 863990.0, "maintenance"]) == []
    (near,) = guard.answer(863200.0, ["n", "reboot", NEAR - 100.0, "maintenance"])
    assert isinstance(near, Notice)


def test_a_recommendation_is_told_only() -> None:
    """It does not take the machine away, and an own stop is as welcome as before."""
    (event,) = Guard().answer(0.0, ["n", "rebalance", None, "at risk"])
    assert isinstance(event, Finding)


def test_a_tag_is_a_veto_until_it_ends() -> None:
    """Also when the reader is lost meanwhile: a hold that is over holds no more."""
    guard = Guard()
    guard.answer(0.0, asks=[["costguard = off", None], ["costguard-hold until x", 60.0]])
    assert len(guard.side.vetoes(59.0)) == 2
    assert len(guard.side.vetoes(61.0)) == 1
    guard.side.take(Ended(1, -9), 70.0)
    assert len(guard.side.vetoes(80.0)) == 1
    guard.answer(200.0, asks=None, error="the service does not answer")
    assert len(guard.side.vetoes(200.0)) == 1
    guard.answer(210.0, asks=[])
    assert guard.side.vetoes(210.0) == ()


@pytest.mark.parametrize(
    ("owner", "listed", "found"), [(None, 32.77, 32.77), (9.5, 32.77, 9.5), (None, -1.0, None), (None, "x", None)]
)
def test_the_owners_price_counts_before_the_list_price(
    owner: float | None, listed: object, found: float | None
) -> None:
    """Money in messages needs a price; nonsense is none."""
    guard = Guard()
    guard.answer(0.0, price={"amount": listed, "currency": "USD", "date": "2026-07-20", "source": "a table"})
    assert guard.side.priced(Policy(price_per_hour=owner)).price_per_hour == found


LISTED = {"amount": 4.0, "currency": "USD", "date": "2026-07-20", "source": "a table", "kind": "list"}


@pytest.mark.parametrize(
    ("listed", "asked", "known", "counts"),
    [
        (LISTED, {}, 4.0, 4.0),
        ({**LISTED, "kind": "limit"}, {}, 4.0, None),
        ({**LISTED, "kind": "limit"}, {**LISTED, "amount": 1.5, "kind": "spot"}, 1.5, 1.5),
        (LISTED, {**LISTED, "amount": 9.0, "kind": "spot"}, 9.0, 9.0),
        ({**LISTED, "kind": "limit"}, {**LISTED, "amount": 2.0, "kind": "limit"}, 2.0, None),
        ({**LISTED, "kind": "limit"}, {**LISTED, "amount": 7.0, "kind": "limit"}, 4.0, None),
        (None, {**LISTED, "amount": -1.0, "kind": "spot"}, None, None),
    ],
)
def test_the_best_price_that_is_known(
    listed: dict[str, Any] | None, asked: dict[str, Any], known: float | None, counts: float | None
) -> None:
    """A Spot price, else the lowest limit, else the list price; a limit is shown and never counted with."""
    guard = Guard()
    guard.answer(0.0, price=listed)
    guard.side.learn(asked)
    guard.side.learn({})  # a plan that heard nothing takes nothing back
    assert guard.side.price.get("amount") == known
    assert guard.side.priced(Policy()).price_per_hour == counts
    assert guard.side.priced(Policy(price_per_hour=5.5)).price_per_hour == 5.5
    assert guard.side.priced(Policy(budget=100.0)).price_per_hour is None


def test_a_price_that_was_asked_for_survives_a_restart() -> None:
    """Plans are made daily, and the guard may be started anew at any time."""
    guard, after = Guard(), Guard()
    assert guard.side.heard == {}
    guard.side.learn({**LISTED, "amount": 1.5, "kind": "spot"})
    after.side.remember(guard.side.heard)
    assert after.side.price["amount"] == 1.5
    assert after.side.settings == {}
    assert after.side.vetoes(0.0) == ()


def test_a_machine_that_is_not_rented_has_no_reader() -> None:
    """It answered once that nobody knows the machine; that does not change."""
    guard = Guard()
    guard.answer(0.0, none="no plug-in knows this machine")
    guard.side.ask(10.0)
    assert len(guard.port.spawned) == 1
    assert guard.side.deadline == float("inf")


@pytest.mark.parametrize(
    "config",
    [
        {**CONFIG, "providers": []},
        {**CONFIG, "cloud": {"provider": "none"}},
        {**CONFIG, "cloud": {"provider": "auto", "metadata": "never"}},
    ],
)
def test_nobody_is_asked_where_the_owner_does_not_want_it(config: dict[str, Any]) -> None:
    """Neither is a process started."""
    guard = Guard(config)
    guard.side.ask(0.0)
    assert guard.port.spawned == []


@pytest.mark.parametrize(
    "answer",
    [
        {"notices": [["n"]]},
        {"notices": 7},
        {"notices": [["n", "stop", "soon", "x"]]},
        {"asks": 7},
        {"asks": [["x", "y"]]},
        {"cloud": None, "notices": [[{}, [], {}, None]]},
    ],
)
def test_nonsense_of_the_reader_is_told_and_changes_nothing(answer: dict[str, Any]) -> None:
    """The guard goes on."""
    guard = Guard()
    guard.side.ask(0.0)
    said = {"read": 1, "cloud": "E", "identity": None, "price": None, "asks": [], "notices": []} | answer
    assert guard.side.take(Line(1, json.dumps(said).encode()), 0.0) == []
    assert "makes no sense" in str(guard.troubles[-1])


def test_trouble_is_told_and_taken_back() -> None:
    """Whoever reads the journal sees both."""
    guard = Guard()
    guard.answer(0.0, error="the service does not answer")
    assert "does not answer" in str(guard.troubles[-1])
    guard.answer(10.0)
    assert guard.troubles[-1] is None


def test_a_fleet_is_spread_evenly() -> None:
    """Five hundred machines: no tenth of the time has more than twice its part."""
    shares = [share(f"dmi:{number:032x}") for number in range(500)]
    counts = [sum(1 for one in shares if tenth / 10 <= one < (tenth + 1) / 10) for tenth in range(10)]
    assert sum(counts) == 500
    assert max(counts) <= 100
