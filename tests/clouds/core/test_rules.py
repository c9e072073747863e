"""The runner of a plan's rules, and what every cloud says in the same words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.cloud import hints
from costguard.cloud.age import YOUNG_SECONDS, is_young, uptime
from costguard.cloud.api import Verb
from costguard.cloud.local_disks import Use
from costguard.cloud.rules import (
    Found,
    PlanCase,
    Row,
    decide,
    disks_deleted,
    disks_kept,
    ends_already,
    local_data,
    not_running,
    prepaid,
    right_missing,
    rights_late,
    unread,
)
from costguard.plans import VERDICTS, Plan, PlanFinding, Verdict

Facts = tuple[Row, ...]


def same(case: PlanCase[Facts]) -> Found:
    """The first fact is about the machine itself."""
    yield from case.facts[:1]


def rest(case: PlanCase[Facts]) -> Iterator[Row]:
    yield from case.facts[1:]


def row(verdict: Verdict, code: str) -> Row:
    return verdict, PlanFinding(code, f"text of {code}", "do this")


def planned(*facts: Row, already: Row | None = None, ends_bill: bool | None = True) -> Plan:
    return decide(
        PlanCase("stop", facts, {}), same, (rest, rest), already=already, ends_bill=ends_bill, keeps_disks=True
    )


def test_every_rule_is_asked_and_the_gravest_finding_comes_first() -> None:
    """Once each, whoever finds it; of the same gravity in the order of the rules."""
    made = planned(
        row("go", "first"),
        row("failed", "unknown"),
        row("refuse", "locked"),
        row("refuse", "prepaid"),
        row("go", "last"),
    )
    assert [finding.code for finding in made.findings] == ["locked", "prepaid", "unknown", "first", "last"]
    assert (made.verdict, made.action, made.keeps_disks) == ("refuse", "stop", True)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_gravest_verdict_is_the_plans(verdict: Verdict) -> None:
    """And one that refuses promises nothing about the bill."""
    made = planned(row("go", "bill_ends"), row(verdict, "other"))
    assert made.verdict == verdict
    assert made.ends_bill is (True if verdict in {"go", "consequences"} else None)
    assert ("bill_ends" in {finding.code for finding in made.findings}) is made.may_act


def test_without_a_finding_it_may_be_done() -> None:
    """Rules name obstacles and consequences; none is needed."""
    assert (planned().verdict, planned().findings) == ("go", ())


def test_of_a_machine_that_ends_already_nothing_more_is_asked() -> None:
    """Only whether it is this one; and nobody knows what whoever ends it does to its disks."""
    made = planned(
        row("go", "this_one"),
        row("refuse", "locked"),
        already=ends_already("the cloud shows it stopping", ends_bill=True),
    )
    assert [finding.code for finding in made.findings] == ["this_one", "ends_already"]
    assert (made.verdict, made.ends_bill, made.keeps_disks) == ("go", True, None)
    another = planned(row("refuse", "not_this_machine"), already=ends_already("it is stopping", ends_bill=True))
    assert another.verdict == "refuse"


@pytest.mark.parametrize("ends_bill", [True, False, None])
def test_a_bill_that_may_go_on_is_not_said_to_end(ends_bill: bool | None) -> None:
    """Prepaid, or something may be started in its place."""
    _, finding = ends_already("it is stopping", ends_bill=ends_bill)
    assert ("that ends its bill" in finding.text) is (ends_bill is True)


def test_a_late_right_is_no_veto() -> None:
    """It is named, and asked for again."""
    verdict, finding = rights_late("the right x/y is missing", "x/y")
    assert (verdict, finding.code) == ("consequences", "rights_may_be_late")
    assert "needed: x/y" in finding.hint


@pytest.mark.parametrize(
    ("age", "young"), [(None, False), (0.0, True), (YOUNG_SECONDS - 1, True), (YOUNG_SECONDS, False)]
)
def test_how_long_a_machine_is_young(age: float | None, *, young: bool) -> None:
    """An unknown age is no excuse for a right that is missing."""
    assert is_young(age) is young


@pytest.mark.parametrize(("text", "seconds"), [("60.50 1.00\n", 60.5), ("soon", None), ("", None), ("\xff\n", None)])
def test_the_kernel_says_how_long_it_runs(tmp_path: Path, text: str, seconds: float | None) -> None:
    """What cannot be read is unknown."""
    (tmp_path / "uptime").write_text(text, encoding="latin-1")
    assert uptime(str(tmp_path)) == seconds
    assert uptime(str(tmp_path / "absent")) is None


@pytest.mark.parametrize(("count", "end"), [(1, ": d0"), (8, ", d7"), (9, ", d7 …")])
def test_of_many_disks_the_first_are_named(count: int, end: str) -> None:
    """And that there are more, only where there are."""
    names = [f"d{number}" for number in range(count)]
    for rule in (disks_deleted, disks_kept):
        ((_, finding),) = rule(names)
        assert finding.text.endswith(end)


def case(verb: Verb = "terminate", **settings: object) -> PlanCase[Facts]:
    return PlanCase(verb, (), settings)


def test_what_is_paid_in_advance_is_ended_only_on_the_owners_word() -> None:
    """Ending it saves nothing; where nothing is, nothing is said."""
    assert list(prepaid(case(prepaid="act"), "")) == list(prepaid(case(), "")) == []
    ((verdict, finding),) = prepaid(case(), "the reservation r1")
    assert (verdict, finding.code, finding.hint) == ("refuse", "prepaid", hints.PREPAID)
    ((verdict, finding),) = prepaid(case(prepaid="act"), "the reservation r1")
    assert (verdict, finding.code) == ("consequences", "reservation_goes_on")
    assert finding.text.startswith("the reservation r1 stays billed")


@pytest.mark.parametrize(
    ("verb", "use", "settings", "verdict", "words"),
    [
        ("terminate", Use("unused"), {}, "consequences", "are not mounted; their data is lost"),
        (
            "terminate",
            Use("empty", ("/a", "/b")),
            {},
            "consequences",
            "are mounted (/a, /b) and empty; their data is lost",
        ),
        ("terminate", Use("used", ("/a",)), {}, "refuse", "would be lost for good (in use: /a) or not"),
        ("terminate", Use("used", ("/a", "/b", "/c", "/d")), {}, "refuse", "(in use: /a, /b, /c, /d)"),
        ("terminate", Use("used", ("/a", "/b", "/c", "/d", "/e")), {}, "refuse", "(in use: /a, /b, /c, /d …)"),
        ("terminate", Use("unknown"), {}, "refuse", "(whether they are in use cannot be seen) or not"),
        ("terminate", Use("used"), {"local_data": "discard"}, "consequences", 'cloud.local_data = "discard" allows'),
        ("terminate", Use("unknown"), {"local_data": "discard"}, "consequences", "is lost for good"),
        ("terminate", Use("unused", swap=True), {}, "consequences", "are not mounted"),
        ("hibernate", Use("unused", swap=True), {}, "refuse", "(in use: swap)"),
        ("hibernate", Use("unused"), {}, "consequences", "are not mounted"),
    ],
)
def test_data_that_ends_with_the_machine_is_kept_unless_the_owner_says_otherwise(
    verb: Verb, use: Use, settings: dict[str, object], verdict: Verdict, words: str
) -> None:
    """Where the use of a disk cannot be seen it counts as used, and memory that is paged out to one is data of a hibernation."""
    ((found, finding),) = local_data(case(verb, **settings), "the disks", use, " or not")
    assert (found, finding.code) == (verdict, "local_data_kept" if verdict == "refuse" else "local_data_lost")
    assert words in finding.text
    assert ("host.procfs" in finding.hint) is (use.state == "unknown" and verdict == "refuse")


def test_what_is_not_known_is_asked_again_only_where_it_may_pass() -> None:
    """Else it is as grave as the rule says, with its own advice; the cloud's words stand in brackets, where there are any."""
    verdict, finding = unread("x", "whether it is locked", "busy", "look", passes=True)
    assert (verdict, finding.text, finding.hint) == ("failed", "unknown: whether it is locked (busy)", hints.AGAIN)
    verdict, finding = unread("x", "its lock", "", "look", passes=False)
    assert (verdict, finding.text, finding.hint) == ("refuse", "unknown: its lock", "look")
    assert unread("x", "its lock", "", "look", passes=False, otherwise="consequences")[0] == "consequences"


def test_words_of_what_is_missing() -> None:
    """No brackets around nothing, and no state without a name."""
    assert (
        not_running("Nimbus", "", "h")[1].text
        == "Nimbus shows this machine as in no state, not running: nothing is sent"
    )
    assert " as paused, not running" in not_running("Nimbus", "paused", "h")[1].text
    assert right_missing("stop", "h")[1].text.endswith("stay up and be billed")
    assert right_missing("stop", "h", "no such role")[1].text.endswith("be billed (no such role)")
