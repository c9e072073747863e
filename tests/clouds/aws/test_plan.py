"""Plans are pure: the table of circumstances, and what its words must say."""

import pytest

from costguard.cloud.api import Verb
from costguard_aws.rules import plan
from tests.clouds.aws.cases import BASE, CELLS, CIRCUMSTANCES, Cell, facts_of


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.verb}: {cell.circumstance}")
def test_each_circumstance_has_its_verdict_and_codes(cell: Cell) -> None:
    """No code more and none less; see `CIRCUMSTANCES` for the fact behind it."""
    made = plan(cell.verb, facts_of(cell), CIRCUMSTANCES[cell.circumstance].settings)
    assert (made.verdict, {finding.code for finding in made.findings}) == (cell.verdict, set(cell.codes.split()))


def test_the_table_is_large_and_without_gaps() -> None:
    """Each circumstance is used, rests on a fact, and many different pairs of verdict and deciding code occur."""
    assert {cell.circumstance for cell in CELLS} == set(CIRCUMSTANCES)
    assert all(len(change.fact) > 10 for change in CIRCUMSTANCES.values())
    assert len(CELLS) >= 50
    assert len({(cell.verdict, cell.codes.split()[0]) for cell in CELLS}) >= 25


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.verb}: {cell.circumstance}")
def test_what_stands_in_the_way_has_a_way_out(cell: Cell) -> None:
    """The first finding decides the verdict; one that refuses or sends elsewhere says what to do."""
    made = plan(cell.verb, facts_of(cell), CIRCUMSTANCES[cell.circumstance].settings)
    if not made.may_act:
        assert made.findings[0].hint
    if made.verdict == "failed":
        assert "grant" not in made.findings[0].hint  # no right is missing
    assert all(len(finding.text) > 20 and "None" not in finding.text for finding in made.findings)


def test_the_gravest_finding_comes_first() -> None:
    """Also when a note was found before it."""
    made = plan("stop", BASE._replace(permitted=False, api_stop_disabled=True), {})
    assert made.verdict == "refuse"
    assert [finding.code for finding in made.findings][:2] == ["not_permitted", "protected"]
    assert made.findings[-1].code == "shutdown_stops"


@pytest.mark.parametrize(
    ("circumstance", "verb", "ends"),
    [
        ("plain", "stop", True),
        ("stopping", "stop", True),
        ("capacity block, act", "stop", False),
        ("reservation, act", "stop", False),
        ("dedicated host", "terminate", False),
        ("member", "stop", False),
        ("member leaves", "terminate", True),
        ("persistent spot", "terminate", False),
        ("one-time spot", "terminate", True),
        ("spot unknown", "terminate", None),
        ("describe denied", "stop", None),
        ("group unknown", "stop", None),
        ("Ray node", "stop", None),
        ("Ray node, standalone", "stop", True),
        ("fleet", "stop", None),
        ("fleet leaves", "stop", True),
    ],
)
def test_whether_the_bill_ends(circumstance: str, verb: Verb, ends: bool | None) -> None:
    """Not where it is paid in advance or something is started in its place; unknown where that may be."""
    cell = Cell(circumstance, verb, "go", "")
    made = plan(verb, facts_of(cell), CIRCUMSTANCES[circumstance].settings)
    assert made.ends_bill is ends
    assert bool({"bill_ends", "ends_already"} & {finding.code for finding in made.findings}) is (ends is True)


def test_only_terminate_loses_the_disks() -> None:
    """Whatever else is wrong."""
    assert [plan(verb, BASE, {}).keeps_disks for verb in ("stop", "hibernate", "terminate")] == [True, True, False]


def test_a_wrong_word_in_the_settings_is_no_consent() -> None:
    """Only the exact word gives up data, money or a group."""
    for cell in (
        Cell("mounted disk", "stop", "refuse", ""),
        Cell("member", "terminate", "refuse", ""),
        Cell("reservation", "stop", "refuse", ""),
        Cell("Ray node", "stop", "refuse", ""),
    ):
        for word in ("yes", True, "", None, "LEAVE", "Discard"):
            settings = {"local_data": word, "group": word, "prepaid": word, "managed": word}
            assert plan(cell.verb, facts_of(cell), settings).verdict == "refuse"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.verb}: {cell.circumstance}")
def test_what_is_not_done_ends_no_bill(cell: Cell) -> None:
    """No plan that refuses, or that names another action, says that the bill ends."""
    made = plan(cell.verb, facts_of(cell), CIRCUMSTANCES[cell.circumstance].settings)
    promised = "bill_ends" in {finding.code for finding in made.findings}
    assert made.may_act or not (promised or made.ends_bill)
