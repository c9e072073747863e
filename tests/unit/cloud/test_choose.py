"""Which plug-in speaks for this machine, what the firmware says of it, and what a plan that cannot be carried out promises."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from costguard.cloud import dmi
from costguard.cloud.access import CloudAccess, HostPaths
from costguard.cloud.choose import Chosen, NobodyError, choose
from costguard.plans import Plan, PlanFinding, Result, Verdict, without_promises


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three that are installed; each knows the machines of its own vendor, and the third those of the second, too."""
    for number, vendors in (("one", ["One"]), ("two", ["Two"]), ("three", ["Three", "Two"])):
        module = ModuleType(f"plugin_{number}")
        known = SimpleNamespace(
            name=number.title(), recognises=lambda found, vendors=vendors: found.get("sys_vendor") in vendors
        )
        module.PROVIDER = known  # type: ignore[attr-defined] # as plug-ins have it
        monkeypatch.setitem(sys.modules, module.__name__, module)


ALL = ["one=plugin_one", "two=plugin_two", "three=plugin_three"]


def pick(root: Path, vendor: str, installed: list[str] | None = None, **settings: Any) -> Chosen:
    folder = root / "sys/class/dmi/id"
    folder.mkdir(parents=True, exist_ok=True)
    if vendor:
        (folder / "sys_vendor").write_text(f"{vendor}\n")
    return choose(
        CloudAccess(tuple(ALL if installed is None else installed), settings, HostPaths("/p", str(root / "sys"), "/d"))
    )


@pytest.mark.parametrize(
    ("vendor", "settings", "name"),
    [
        ("One", {}, "one"), ("Three", {"provider": "auto"}, "three"), ("Three", {"provider": ""}, "three"), ("Two", {"provider": "two"}, "two"), ("One", {"provider": "two"}, "two"),
        ("", {"provider": "three"}, "three"), ("One", {"provider": "plugin_two"}, "two"),
    ],
)  # fmt: skip
def test_the_one_that_is_named_or_knows_the_firmware(
    tmp_path: Path, vendor: str, settings: dict[str, Any], name: str
) -> None:
    """By its own name or by that of its module; it looks where this machine's files are, with its settings."""
    found = pick(tmp_path, vendor, **settings)
    assert (found.name, found.provider.name) == (name, name.title())
    assert (found.site.procfs, found.site.sysfs, found.site.devfs) == ("/p", str(tmp_path / "sys"), "/d")
    assert (found.site.settings, found.site.dmi.get("sys_vendor", "")) == (settings, vendor)
    assert "PATH" in found.site.environ


@pytest.mark.parametrize(
    ("vendor", "installed", "settings", "code", "words"),
    [
        ("One", ALL, {"provider": "none"}, "no_provider", 'cloud.provider = "none"'), ("One", ALL, {"provider": "four"}, "no_provider", "'four', which is not installed"),
        ("Two", ALL, {}, "cloud_ambiguous", "several plug-ins claim this machine (Two, Three)"), ("Four", ALL, {}, "no_provider", "knows this machine (Four)"),
        ("", ALL, {}, "no_provider", "knows this machine (no firmware identity)"), ("One", [], {}, "no_provider", "knows this machine (One)"),
        ("Four", [*ALL, "five=plugin_five"], {}, "plugin_failed", "plugin_five: ModuleNotFoundError"), ("Two", [*ALL, "five=plugin_five"], {}, "cloud_ambiguous", "claim"),
        ("One", ["one=plugin_five"], {"provider": "one"}, "plugin_failed", "plugin_five"),
    ],
)  # fmt: skip
def test_where_no_single_one_speaks_for_it_nobody_does(
    tmp_path: Path, vendor: str, installed: list[str], settings: dict[str, Any], code: str, words: str
) -> None:
    """And why, and what to do."""
    with pytest.raises(NobodyError) as raised:
        pick(tmp_path, vendor, installed, **settings)
    assert (raised.value.finding.code, raised.value.verdict) == (code, "refuse")
    assert words in str(raised.value) == raised.value.finding.text
    assert raised.value.finding.hint


def test_what_the_firmware_does_not_tell_is_left_out(tmp_path: Path) -> None:
    """Wherever it stands; the rest is read."""
    folder = tmp_path / "class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "product_name").write_text(" A b \n")
    (folder / "product_uuid").mkdir()
    (tmp_path / "hypervisor").mkdir()
    (tmp_path / "hypervisor/uuid").write_text("u\n")
    assert dmi.identity(str(tmp_path)) == {"product_name": "A b", "hypervisor_uuid": "u"}


@pytest.mark.parametrize("ends", [True, False, None])
@pytest.mark.parametrize("verdict", ["go", "consequences", "another", "failed", "refuse"])
def test_a_plan_that_is_not_carried_out_promises_no_end(verdict: Verdict, ends: bool | None) -> None:
    """That the bill goes on it may say."""
    findings = (PlanFinding("bill_ends", "x"), PlanFinding("other", "y"))
    plan = Plan("stop", verdict, findings, ends_bill=ends)
    found = without_promises(plan)
    if verdict in {"go", "consequences"}:
        assert found == plan
    else:
        assert (found.findings, found.ends_bill, found.verdict) == (
            findings[1:],
            False if ends is False else None,
            verdict,
        )


def test_an_outcome_without_a_receipt_has_none() -> None:
    """Nor an empty one, in the record of it."""
    assert Result("done", "d").as_json == {"status": "done", "detail": "d", "proof": ""}
    assert Result("done", "d", "p", {"a": "1"}).as_json == {
        "status": "done",
        "detail": "d",
        "proof": "p",
        "receipt": {"a": "1"},
    }
