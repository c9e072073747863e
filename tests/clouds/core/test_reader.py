"""The cloud reader as a real process, and the guard's side of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from costguard.agent.cloud_side import NEAR_SECONDS, CloudSide
from costguard.agent.jitter import jitter_of
from costguard.cloud.access import CloudAccess
from costguard.cloud.api import CloudError, Identity, Site
from costguard.cloud.choose import Chosen, choose
from costguard.engine.events import Finding, Notice
from costguard.engine.policy import Policy
from costguard.host.ports import Ended, Instant, Line, Unwatched
from costguard.process.wire import build
from costguard.readers.cloud import reader as reading
from costguard.readers.cloud.job import CloudJob
from costguard.readers.cloud.reader import MetadataWatch
from costguard.readers.cloud.tags import asks, mistakes, settings
from tests.clouds.core.conftest import EXAMPLE, Rented
from tests.contract.cloud_server import Cloud

READER = "import sys; from costguard.readers.cloud.reader import main; sys.exit(main())"


class Inside:
    """The reader in this process, asked line by line; ``now`` is its time."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.now = 1000.0
        self._number, self._lines = 0, Queue[bytes]()
        self._answers = Queue[bytes]()
        self._thread = Thread(target=self._serve, args=[build(CloudJob, json.loads(json.dumps(job)))], daemon=True)
        self._thread.start()

    def _serve(self, job: CloudJob) -> None:
        try:
            reading.serve(job, self._lines.get, self._answers.put, clock=lambda: self.now)
        finally:
            self._answers.put(b"")

    def read(self) -> dict[str, Any]:
        self._number += 1
        self._lines.put(json.dumps({"read": self._number}).encode() + b"\n")
        answer = json.loads(self._answers.get(timeout=10.0))
        assert answer["read"] == self._number
        assert isinstance(answer, dict)
        return answer

    def end(self) -> bool:
        """Whether it ends with its input, and says no more."""
        self._lines.put(b"")
        return self._answers.get(timeout=10.0) == b""


def with_section(job: dict[str, Any], **section: object) -> dict[str, Any]:
    """The same under other settings of ``[cloud]``."""
    return {**job, "place": {**job["place"], "cloud": {**job["place"]["cloud"], **section}}}


@pytest.fixture
def job(rented: Rented, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    given = rented.job("plan")
    return {"place": {name: given[name] for name in ("providers", "cloud", "host")}, "wait": 0}


@pytest.fixture
def reader(job: dict[str, Any]) -> Iterator[Inside]:
    made = Inside(job)
    yield made
    assert made.end()


def test_as_a_process_it_answers_until_the_guard_is_gone(job: dict[str, Any]) -> None:
    """One line for each, and exit code 0, also for a guard that is not itself."""
    lines = [json.dumps(job).encode(), b'{"read":1}', b'{"read":2}']
    for more, answers in ((b"", 2), (b"\nno JSON\n", 2), (b"\n7\n", 2)):
        done = process(b"\n".join(lines) + more)
        assert [json.loads(line)["read"] for line in done.stdout.splitlines()] == [1, 2][:answers]
        assert done.returncode == 0
    for nothing in (b"", b"\n", b"no JSON\n", b"7\n"):
        done = process(nothing)
        assert (done.stdout, done.returncode) == (b"", 0)


def process(lines: bytes) -> subprocess.CompletedProcess[bytes]:
    """The reader as the guard starts it."""
    command = [sys.executable, "-c", READER]
    return subprocess.run(command, input=lines, capture_output=True, env={"PYTHONPATH": str(EXAMPLE)}, check=False)


def test_it_says_who_this_machine_is_and_what_it_costs(reader: Inside) -> None:
    """Identity with its evidence, the list price with its date, and no notice."""
    answer = reader.read()
    assert answer["cloud"] == "Example Cloud"
    assert answer["identity"]["instance"] == "m-42"
    assert answer["identity"]["evidence"] == ["firmware tag m-42", "metadata id m-42"]
    assert (answer["price"]["amount"], answer["price"]["date"]) == (4.0, "2026-01-01")
    assert (answer["notices"], answer["asks"], "error" in answer) == ([], [], False)


def test_a_notice_is_seen_at_the_next_read(reader: Inside, cloud: Cloud) -> None:
    """It has as many seconds as are left, by this machine's own date."""
    reader.read()
    cloud.notices = [{"id": "n1", "kind": "stop", "at": None, "words": "taken back"}]
    assert reader.read()["notices"] == [["n1", "stop", None, "taken back"]]
    cloud.notices = [{"id": "n2", "kind": "stop", "at": 0.0, "words": "long ago"}]
    (notice,) = reader.read()["notices"]
    assert notice[2] < -1e9


def test_who_it_is_is_asked_once(reader: Inside, cloud: Cloud) -> None:
    """Only notices are asked for at every read."""
    for _ in range(5):
        reader.read()
    assert [call for call in cloud.calls if "notices" not in call] == ["GET /machine", "GET /tags"]


def test_a_service_that_fails_is_left_alone_for_a_while(reader: Inside, cloud: Cloud) -> None:
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


def test_announcements_that_fail_do_not_hide_the_tags(reader: Inside, cloud: Cloud) -> None:
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
    eyes = MetadataWatch(choose(CloudAccess.of(job)), wait=0.0, clock=lambda: now[0])
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


def test_a_reader_that_never_saw_the_tags_says_so(reader: Inside, cloud: Cloud) -> None:
    """Unknown is not *nothing*: an escape hatch that an earlier reader saw stays open."""
    cloud.fail["/machine"] = 500
    answer = reader.read()
    assert (answer["asks"], answer["identity"]) == (None, None)
    assert "500" in answer["error"]


def test_without_a_cloud_it_says_so(job: dict[str, Any], rented: Rented, cloud: Cloud) -> None:
    """And asks nobody."""
    rented.dmi(sys_vendor="QEMU")
    made = Inside(job)
    assert "no plug-in knows" in made.read()["none"]
    assert made.end()
    assert cloud.calls == []


def test_it_waits_before_its_first_question(job: dict[str, Any], cloud: Cloud) -> None:
    """A fleet that boots together asks one after the other."""
    made = Inside({**job, "wait": 60})
    assert made.read()["identity"] is None
    assert made.end()
    assert cloud.calls == []


@pytest.mark.parametrize(("path", "every"), [("/machine", 3600.0), ("/tags", 60.0)])
def test_what_hardly_changes_is_asked_again_in_its_time(reader: Inside, cloud: Cloud, path: str, every: float) -> None:
    """Who the machine is each hour, its tags each minute: neither earlier nor later."""
    for seconds, asked in ((0.0, 1), (every - 0.5, 1), (0.5, 2), (1.0, 2)):
        reader.now += seconds
        reader.read()
        assert cloud.calls.count(f"GET {path}") == asked


def test_a_wait_ends(job: dict[str, Any]) -> None:
    """From the first second after it the service is asked."""
    made = Inside({**job, "wait": 60})
    for seconds, known in ((0.0, False), (59.5, False), (0.5, True)):
        made.now += seconds
        assert (made.read()["identity"] is not None) is known
    assert made.end()


def test_a_machine_that_nobody_can_name_is_asked_nothing_else(reader: Inside, cloud: Cloud) -> None:
    """A metadata service that does not know who asks tells of somebody else's machine, perhaps."""
    cloud.fail["/machine"] = 500
    reader.read()
    assert cloud.calls == ["GET /machine"]
    del cloud.fail["/machine"]
    reader.now += 10.0
    assert "error" not in reader.read()
    assert len(cloud.calls) == 4


def test_a_pause_doubles_up_to_five_minutes_and_begins_anew_after_an_answer(reader: Inside, cloud: Cloud) -> None:
    """Each failure by itself: what ended long ago delays nothing."""
    for _ in range(2):
        cloud.fail["/tags"] = 500
        reader.now += 60.0
        moments: list[float] = []
        for _ in range(70):
            before = cloud.calls.count("GET /tags")
            reader.read()
            if cloud.calls.count("GET /tags") > before:
                moments.append(reader.now)
            reader.now += 10.0
        assert [later - one for one, later in pairwise(moments)] == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0]
        del cloud.fail["/tags"]
        reader.now += 300.0
        assert "error" not in reader.read()


@pytest.mark.parametrize(("section", "silent"), [({"notices": "off"}, "/notices"), ({"tags": "off"}, "/tags")])
def test_what_the_owner_switched_off_is_not_asked(
    job: dict[str, Any], cloud: Cloud, section: dict[str, object], silent: str
) -> None:
    """And is not known: no tag was read, so none is said to ask for nothing."""
    made = Inside(with_section(job, **section))
    answer = made.read()
    assert made.end()
    assert {call.partition(" ")[2] for call in cloud.calls} == {"/machine", "/notices", "/tags"} - {silent}
    assert (answer["asks"] is None, answer["settings"] is None) == (
        (True, True) if silent == "/tags" else (False, False)
    )


@pytest.mark.parametrize("allowed", [True, False, "yes", 1, None])
def test_settings_of_tags_count_where_the_owner_said_so(job: dict[str, Any], cloud: Cloud, allowed: object) -> None:
    """Plainly: anything but true is no. A hold that is no date is told in any case."""
    cloud.tags = {"costguard-grace": "1h", "costguard-kill-duration": "long", "costguard-hold": "tomorrow"}
    made = Inside(with_section(job, tag_settings=allowed))
    answer = made.read()
    assert made.end()
    assert answer["settings"] == ({"grace": 3600.0} if allowed is True else {})
    told = [words.split(":")[0] for words in answer["nonsense"]]
    assert told == ["tag costguard-hold", *(["tag costguard-kill-duration"] if allowed is True else [])]


def test_what_a_stranger_wrote_is_cut_and_masked(job: dict[str, Any], cloud: Cloud) -> None:
    """Words of a tag and of a failure go to a log: no secret, and no novel."""
    cloud.tags = {"costguard-hold": "token=abcdefghij " + "x" * 500}
    made = Inside(job)
    (told,) = made.read()["nonsense"]
    assert made.end()
    assert (len(told), "abcdefghij" in told) == (300, False)
    odd = Inside(with_section(job, provider="a password=abcdefghij " + "x " * 200))
    none = odd.read()["none"]
    assert odd.end()
    assert (len(none), "abcdefghij" in none) == (300, False)


class Broken:
    """A plug-in that raises whatever it likes."""

    name = "Broken"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def identify(self, site: Site) -> Identity:
        raise self._error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (CloudError("denied", "not for you: password=abcdefghij"), "not for you: password=***"),
        (KeyError("zone"), "the plug-in failed: KeyError: 'zone'"),
        (ValueError("y" * 500), "the plug-in failed: ValueError: " + "y" * 268),
    ],
)
def test_a_plug_in_that_fails_is_told_in_its_own_words(error: Exception, words: str) -> None:
    """Its bug is none of the reader's life."""
    eyes = MetadataWatch(Chosen("broken", Broken(error), Site({}, {}, {})), wait=0.0)  # type: ignore[arg-type] # it gets no further
    eyes.look()
    assert eyes.error == words
    assert eyes.answer(0.0).error == words


def test_it_loads_no_sdk_and_nothing_heavy(job: dict[str, Any]) -> None:
    """It stays for weeks beside a training job."""
    program = (
        "import sys, costguard.readers.cloud.reader; heavy = {'pydantic', 'click', 'rich', 'asyncio', 'logging', 'sqlite3', 'boto3',"
        " 'google', 'azure', 'http', 'ssl'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ({"costguard": "off"}, [("costguard = off", None)]),
        ({"CostGuard": " OFF "}, [("costguard = OFF", None)]),
        ({"costguard": "on"}, []),
        ({"costguard-hold": "1970-01-01T00:20:00+00:00"}, [("costguard-hold until 1970-01-01T00:20:00+00:00", 200.0)]),
        ({"Costguard_Hold": "1970-01-01T00:20:00Z"}, [("costguard-hold until 1970-01-01T00:20:00Z", 200.0)]),
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
def test_a_hold_that_is_no_date_is_told(reader: Inside, cloud: Cloud, until: str, complaints: int) -> None:
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


def instant(boot: float) -> Instant:
    """A reading of clocks that began together."""
    return Instant(boot, boot, boot, None)


class Guard:
    """The guard's side with a scripted reader."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.port = Port()
        self.troubles: list[str | Unwatched | None] = []
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
        return self.side.take(Line(len(self.port.spawned), line), instant(now))


@pytest.mark.parametrize(("mode", "asked"), [("live", True), ("dry-run", False), ("LIVE", False)])
def test_a_dry_run_asks_nothing_that_has_an_effect(mode: str, asked: bool) -> None:
    """A question that switches announcements on delays other people's restarts."""
    wanted = {**CONFIG, "policy": {"mode": mode}}
    guard = Guard(wanted)
    guard.side.ask(0.0)
    assert guard.port.spawned[0][1]["place"]["cloud"]["live"] is asked


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
    (near,) = guard.answer(863200.0, ["n", "reboot", NEAR_SECONDS - 100.0, "maintenance"])
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
    guard.side.take(Ended(1, -9), instant(70.0))
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
    guard.side.learn_price(asked)
    guard.side.learn_price({})  # a plan that heard nothing takes nothing back
    assert guard.side.price.get("amount") == known
    assert guard.side.priced(Policy()).price_per_hour == counts
    assert guard.side.priced(Policy(price_per_hour=5.5)).price_per_hour == 5.5
    assert guard.side.priced(Policy(budget=100.0)).price_per_hour is None


def test_a_price_that_was_asked_for_survives_a_restart() -> None:
    """Plans are made daily, and the guard may be started anew at any time."""
    guard, after = Guard(), Guard()
    assert guard.side.memory is None
    guard.side.learn_price({**LISTED, "amount": 1.5, "kind": "spot"})
    after.side.remember(guard.side.memory)
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
    assert guard.side.take(Line(1, json.dumps(said).encode()), instant(0.0)) == []
    assert "malformed answer" in str(guard.troubles[-1])


def test_trouble_is_told_and_taken_back() -> None:
    """Whoever reads the journal sees both."""
    guard = Guard()
    guard.answer(0.0, error="the service does not answer")
    assert "does not answer" in str(guard.troubles[-1])
    guard.answer(10.0)
    assert guard.troubles[-1] is None


def test_a_fleet_is_spread_evenly() -> None:
    """Five hundred machines: no tenth of the time has more than twice its part."""
    shares = [jitter_of(f"dmi:{number:032x}") for number in range(500)]
    counts = [sum(1 for one in shares if tenth / 10 <= one < (tenth + 1) / 10) for tenth in range(10)]
    assert sum(counts) == 500
    assert max(counts) <= 100


MAINTENANCE: list[object] = ["maintenance", "stop", None, "stops it for maintenance within the hour"]


def test_a_notice_without_a_date_counts_for_as_long_as_the_cloud_shows_it() -> None:
    """Google Cloud announces maintenance an hour ahead: to forget it after ten minutes would be to say that it does not come."""
    guard = Guard()
    found = [
        (now, event) for now in range(0, 4000, 20) if (event := next(iter(guard.answer(float(now), MAINTENANCE)), None))
    ]
    assert all(isinstance(event, Notice) for _, event in found)
    moments = [now for now, _ in found]
    assert moments[0] == 0
    assert max(later - earlier for earlier, later in pairwise([*moments, 4000])) < 600, (
        "the engine forgets it after ten minutes"
    )
    assert len(found) < 20


def test_a_notice_that_stands_for_hours_keeps_no_machine_up() -> None:
    """Whatever the metadata says: after two hours the machine's own rules go on. One that only warns is told once."""
    guard = Guard()
    moments = [now for now in range(0, 20000, 60) if guard.answer(float(now), MAINTENANCE)]
    assert 6000 < moments[-1] <= 7260
    other = Guard()
    rebalance: list[object] = ["rebalance", "rebalance", None, "may soon interrupt it"]
    assert [now for now in range(0, 20000, 60) if other.answer(float(now), rebalance)] == [0]


def test_what_is_announced_again_is_news_again() -> None:
    """The next maintenance has the same name. One that a service leaves out for a moment is the same."""
    guard = Guard()
    assert guard.answer(0.0, MAINTENANCE)
    assert not guard.answer(20.0)
    assert not guard.answer(40.0, MAINTENANCE)
    assert guard.answer(50000.0, MAINTENANCE)
