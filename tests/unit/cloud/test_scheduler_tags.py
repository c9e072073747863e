"""A scheduler by a machine's tags, and costguard's own tags: what they say."""

import pytest

from costguard.cloud.managed import by_tags, finding
from costguard.cloud.tags import heartbeat_value, incident_value


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ({}, None),
        ({"name": "ann"}, None),
        ({"ray-node-type": "head"}, ("Ray", "tag ray-node-type")),
        ({"ray-cluster-name": "c", "skypilot-cluster-name": "c"}, ("SkyPilot", "tag skypilot-cluster-name")),
        ({"skypilot-cluster-name": "c", "nimbus-pool": "p"}, ("Slurm", "tag nimbus-pool")),
        ({"nimbus/pool/7": "p"}, ("Kubernetes", "tag nimbus/pool/7")),
        ({"Owner": "DStack"}, ("dstack", "tag Owner = DStack")),
        ({"kind": "Batch"}, ("LSF", "tag kind = Batch")),
        ({"kind": "other"}, None),
    ],
)
def test_a_scheduler_by_the_tags_of_its_nodes(tags: dict[str, str], found: tuple[str, str] | None) -> None:
    """The plug-in's own names count before those that all clouds share; names begin so, or have a value."""
    own = {"nimbus-pool": "Slurm"}
    assert by_tags(tags, own, {"nimbus/pool/": "Kubernetes"}, {("kind", "batch"): "LSF"}) == found


def test_a_node_is_not_touched_unless_its_owner_says_that_nothing_is_scheduled() -> None:
    """The advice is the cloud's own way, else the scheduler's, else that it is to be ended there."""
    verdict, row = finding(("Slurm", "tag x"), {}, {"Slurm": "use the console"})
    assert (verdict, row.hint.startswith("use the console; ")) == ("refuse", True)
    assert finding(("Slurm", "tag x"), {}, {"Ray": "use the console"})[1].hint.startswith("`scontrol update")
    assert finding(("Nobody", "tag x"), {})[1].hint.startswith("end it there: ")
    verdict, row = finding(("Slurm", "tag x"), {"managed": "standalone"})
    assert (verdict, row.text.startswith("tag x (Slurm), but cloud.managed")) == ("consequences", True)


def test_the_agents_own_tags_are_read_by_people_and_by_a_backstop() -> None:
    """The date first, the longest last; nothing is left empty."""
    assert incident_value("stop", "idle", "b-i1", 0.0) == "1970-01-01T00:00:00Z stop idle b-i1"
    assert incident_value("stop", "", "", 86_400.0) == "1970-01-02T00:00:00Z stop unknown none"
    assert heartbeat_value("idle", 3600.0) == "1970-01-01T01:00:00Z idle"
