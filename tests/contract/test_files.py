"""Whoever knows one plug-in of this project finds his way in the others: the same files with the same names."""

import importlib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PACKAGES = sorted({point.module.partition(".")[0] for point in entry_points(group="costguard.providers")})

SAME = frozenset(
    (
        *("__init__", "firmware", "metadata", "identity", "notices", "nodes", "prices", "permissions"),
        *("session", "errors", "facts", "disks", "rules", "act", "mark", "verify", "machine"),
    )
)

MORE = {
    "costguard_aws": {
        "described": "what EC2's answers say, as values: its SDK gives dictionaries",
        "rules_bill": "the rules are too many for one file",
        "rules_vetoes": "as rules_bill",
        "secret_store": "optional: the cloud keeps secrets that a machine may read",
        "standby": "a member of a group is stopped in two steps here alone",
        "transport": "the SDK reads answers of any length, and refusals of anybody",
    },
    "costguard_azure": {
        "arm": "the questions that are put to the Resource Manager, past the SDK's models",
        "secret_store": "optional: the cloud keeps secrets that a machine may read",
        "resource": "resource ids, from which every address is made",
        "rules_bill": "the rules are too many for one file",
        "rules_group": "as rules_bill",
    },
    "costguard_gcp": {
        "places": "where a machine and its group are, for every call",
        "sdk": "the SDK's package loads a hundred clients that nobody here uses",
        "secret_store": "optional: the cloud keeps secrets that a machine may read",
    },
}
"""What a plug-in has beside them, and why."""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_plug_in_has_the_same_files(package: str) -> None:
    """One more or one less has its reason here."""
    found = importlib.import_module(package).__file__
    assert found is not None
    files = {file.stem for file in Path(found).parent.glob("*.py")}
    more = MORE.get(package, {})
    missing, further = sorted((SAME | more.keys()) - files), sorted(files - SAME - more.keys())
    assert not missing, f"{package} lacks {missing}, which every plug-in has (or MORE still names what is gone)"
    assert not further, f"give the reason for {further} in MORE, or use the name that the others have"
    assert all(len(why) > 10 for why in more.values())
