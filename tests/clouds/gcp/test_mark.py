"""Labels of the machine itself, written with the real SDK: others stay, whoever changes them meanwhile."""

import pathlib
from collections.abc import Iterator

import pytest

from costguard.cloud.api import CloudError
from costguard.testing.contract import check_marks
from costguard_gcp import PROVIDER
from costguard_gcp.mark import text
from costguard_gcp.testing import Fault, Machine
from tests.clouds.gcp.conftest import World, world_of

TAGS = {"costguard-incident": "2031-01-31T18:00:00Z stop idle B-i1"}
WRITTEN = {"costguard-incident": "2031-01-31t18-00-00z_stop_idle_b-i1"}


@pytest.fixture
def marked(tmp_path: pathlib.Path) -> Iterator[World]:
    """A machine with a label of somebody, and the right."""
    with world_of(Machine(labels={"owner": "ml"}), tmp_path, granted=("get", "setLabels")) as made:
        yield made


def test_it_keeps_the_contract_of_marks(marked: World) -> None:
    """The one that is public, on this cloud's stand-in."""
    check_marks(marked.open(), lambda: marked.machine.labels)


def test_a_value_becomes_what_a_label_takes() -> None:
    """Lower case, 63 characters; the date and what is done stay readable."""
    assert text("2031-01-31T18:00:00Z stop idle B-i1") == WRITTEN["costguard-incident"]
    assert len(text("x" * 100)) == 63
    assert text("Ä€/") == "---"


def test_who_changes_labels_at_the_same_moment_loses_nothing(marked: World) -> None:
    """The fingerprint does not fit any more, so both are read and written again."""
    marked.api.faults.append(Fault("relabelled", "setLabels", 2))
    marked.open().mark(TAGS, 10.0)
    assert marked.machine.labels == {"owner": "ml", "somebody": "else-2", **WRITTEN}
    assert [one.status for one in marked.api.calls("/setLabels")] == [412, 412, 200]


@pytest.mark.parametrize(
    "kind", ["throttle_403", "throttle_429", "error_503", "cut_before", "cut_after", "fail_but_act"]
)
def test_a_technical_failure_is_tried_again(marked: World, kind: str) -> None:
    """Whether or not it had its effect; what is there already is not sent again."""
    marked.api.faults.append(Fault(kind, "setLabels"))  # type: ignore[arg-type]  # the tests spell the kinds
    marked.open().mark(TAGS, 10.0)
    assert marked.machine.labels == {"owner": "ml", **WRITTEN}
    assert len(marked.api.calls("/setLabels")) == (1 if kind in {"cut_after", "fail_but_act"} else 2)


@pytest.mark.parametrize("dry", [True, False])
def test_a_missing_right_is_named(marked: World, dry: bool) -> None:
    """Also when it is only asked for."""
    marked.api.granted.discard("compute.instances.setLabels")
    with pytest.raises(CloudError) as caught:
        marked.open().mark(TAGS, 10.0, dry=dry)
    assert caught.value.trouble == "denied"
    assert "compute.instances.setLabels" in str(caught.value)
    assert "costguard permissions gcp --tag" in caught.value.hint
    assert marked.machine.labels == {"owner": "ml"}


@pytest.mark.parametrize("dry", [True, False])
def test_missing_scopes_are_named(marked: World, dry: bool) -> None:
    """A role does not help where the machine's scopes forbid it."""
    marked.machine.scopes = ("https://www.googleapis.com/auth/compute.readonly",)
    with pytest.raises(CloudError) as caught:
        marked.open().mark(TAGS, 10.0, dry=dry)
    assert (caught.value.trouble, caught.value.code) == ("denied", "scopes_missing")


def test_sixty_four_labels_are_the_limit(marked: World) -> None:
    """Nobody's label makes room for ours."""
    marked.machine.labels = {f"l{number}": "x" for number in range(64)}
    with pytest.raises(CloudError) as caught:
        marked.open().mark(TAGS, 10.0)
    assert caught.value.trouble == "refused"
    assert len(marked.machine.labels) == 64


def test_what_was_taken_and_does_not_show_is_no_success(marked: World) -> None:
    """An acceptance alone proves nothing."""
    marked.api.faults.append(Fault("nothing", "setLabels"))
    with pytest.raises(CloudError) as caught:
        marked.open().mark(TAGS, 1.5)
    assert caught.value.code == "not_shown"


def test_an_operation_that_failed_is_one(marked: World) -> None:
    """With the words of the operation."""
    marked.api.faults.append(Fault("fail_at_once", "setLabels", message="Labels are frozen."))
    with pytest.raises(CloudError, match="Labels are frozen"):
        marked.open().mark(TAGS, 5.0)


def test_another_machine_of_this_name_is_left_alone(marked: World) -> None:
    """The numeric id is compared before anything is written."""
    session = marked.open()
    marked.machine.number += 1
    with pytest.raises(CloudError) as caught:
        session.mark(TAGS, 5.0)
    assert caught.value.trouble == "changed"
    assert marked.machine.labels == {"owner": "ml"}


def test_the_role_has_the_right_only_when_asked_for() -> None:
    """It is a right to change."""
    assert "- compute.instances.setLabels" in PROVIDER.policy(["stop"], tag=True)
    assert "setLabels" not in PROVIDER.policy(["stop"])
