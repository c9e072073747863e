"""The contract of cloud plug-ins, over every one that is registered, and over one that somebody else wrote."""

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from costguard.cloud.api import load
from costguard.testing.contract import CHECKS, FOREIGN, Case

REGISTERED = sorted(entry_points(group="costguard.providers"))
PROJECT = Path(__file__).parents[2]
PACKAGES = {point.module.partition(".")[0] for point in REGISTERED}
SCHEDULERS = {point.module.partition(".")[0] for point in entry_points(group="costguard.tasks")}
"""Plug-ins of another kind in the same folder: see test_schedulers.py."""
PROJECT_FILE = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
LINTER = PROJECT_FILE["tool"]["importlinter"]
CONTRACTS: list[dict[str, object]] = LINTER["contracts"]
EXAMPLE = Path(__file__).parent / "example"

CLAIMED: list[Mapping[str, str]] = [  # what looks like a cloud of this project, and is not; source: `dmidecode`
    *FOREIGN,
    {"chassis_asset_tag": "OracleCloud.com"},
    {"sys_vendor": "Xen", "bios_version": "4.17.3", "hypervisor_uuid": "ec2e1916-9099-7caf-fd21-012345abcdef"},
    {"sys_vendor": "Google", "product_name": "Kindred"},
]
OWN: dict[str, list[Mapping[str, str]]] = {
    "aws": [
        {"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"},
        {"sys_vendor": "Xen", "bios_version": "4.11.amazon", "hypervisor_uuid": "ec2e1916-9099-7caf-fd21-012345abcdef"},
        {"hypervisor_uuid": "ec2e1916-9099-7caf-fd21-012345abcdef"},  # a paravirtual guest has no firmware
    ],
    "gcp": [{"sys_vendor": "Google", "product_name": "Google Compute Engine"}],
    "azure": [{"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}],
}


@pytest.fixture
def example() -> Iterator[Case]:
    """The third-party plug-in, on the path as an installed one would be."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield Case("costguard_example:Example", own=[{"sys_vendor": "Example Cloud"}], foreign=[*CLAIMED, *OWN["aws"]])
    finally:
        sys.path.remove(str(EXAMPLE))


def case_of(point: EntryPoint) -> Case:
    assert point.name in OWN, (
        f"add an entry {point.name!r} to OWN of tests/contract/test_providers.py: what the firmware of its machines says"
    )
    others = [dmi for name, machines in OWN.items() if name != point.name for dmi in machines]
    return Case(point.value, OWN[point.name], [*CLAIMED, *others])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("point", REGISTERED, ids=lambda point: point.name)
def test_every_registered_plug_in_keeps_the_contract(point: EntryPoint, check: Callable[[Case], None]) -> None:
    """One suite, which is public: whoever adds a cloud runs the same."""
    check(case_of(point))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_plug_in_of_somebody_else_keeps_it(example: Case, check: Callable[[Case], None]) -> None:
    """It needs nothing of the core but the interface."""
    check(example)


def test_the_clouds_of_this_project_are_registered() -> None:
    """Otherwise the tests above would pass over nothing; and a folder that nobody registered is no plug-in."""
    declared = PROJECT_FILE["project"]["entry-points"]["costguard.providers"]
    installed = {point.name: point.value for point in REGISTERED}
    assert declared == installed, "pyproject.toml has changed since it was installed: `make test`, or pip install -e ."
    differing = sorted(installed.keys() ^ OWN.keys())
    assert not differing, f"OWN says what the firmware of each cloud's machines says, and these differ: {differing}"
    folders = {file.parent.name for file in (PROJECT / "providers").glob("*/__init__.py")} - SCHEDULERS
    unlike = sorted(folders ^ PACKAGES) if folders else []  # beside a wheel that is tested there is no folder
    assert not unlike, f"a folder in providers/ without an entry point in pyproject.toml, or the reverse: {unlike}"


@pytest.mark.parametrize("point", REGISTERED, ids=lambda point: point.name)
def test_every_cloud_of_this_project_has_its_page_and_its_tests(point: EntryPoint) -> None:
    """Its limits and its rights stand on a page; its stand-in is asked in a folder of tests."""
    assert f"](docs/clouds-{point.name}.md)" in (PROJECT / "README.md").read_text(encoding="utf-8"), (
        f"link docs/clouds-{point.name}.md in the table *More* of the README"
    )
    assert (PROJECT / "docs" / f"clouds-{point.name}.md").exists(), f"write docs/clouds-{point.name}.md"
    tested = list((PROJECT / "tests" / "clouds" / point.name).glob("test_*.py"))
    assert tested, f"add tests of the cloud to tests/clouds/{point.name}"


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: str(contract["name"]))
def test_every_plug_in_is_bound_by_the_import_contracts(contract: dict[str, object]) -> None:
    """One that is named by none would be checked by none."""
    named = {str(name) for key in ("modules", "source_modules", "forbidden_modules") for name in listed(contract, key)}
    of_one = {name for name in named if name in PACKAGES}
    about_one_sdk = str(contract["name"]).startswith("The SDK of ")
    if of_one:
        differing = of_one ^ (PACKAGES - (owner_of(contract) if about_one_sdk else set()))
        assert not differing, f"{sorted(differing)}: see the import contract {contract['name']!r} of pyproject.toml"


def test_every_sdk_has_its_one_user() -> None:
    """Each plug-in that has one has a contract that keeps it from the others; and an extra, as hints name that of any plug-in."""
    extras = PROJECT_FILE["project"]["optional-dependencies"]
    lacking = {point.name for point in REGISTERED} - extras.keys()
    assert not lacking, f"add an extra for {sorted(lacking)} to pyproject.toml ([] without an SDK)"
    with_sdk = {point.module.partition(".")[0] for point in REGISTERED if extras.get(point.name)}
    owners = [owner_of(contract) for contract in CONTRACTS if str(contract["name"]).startswith("The SDK of ")]
    differing = sorted({name for owner in owners for name in owner} ^ with_sdk)
    assert not differing, (
        f"{differing}: whoever has an SDK has an extra that brings it and a contract `The SDK of …`, which names all others"
    )
    roots = set(LINTER["root_packages"]) ^ {"costguard", *PACKAGES, *SCHEDULERS}
    assert not roots, f"root_packages of [tool.importlinter] in pyproject.toml and plug-ins differ: {sorted(roots)}"


def listed(contract: dict[str, object], key: str) -> list[object]:
    found = contract.get(key, [])
    return found if isinstance(found, list) else []


def owner_of(contract: dict[str, object]) -> set[str]:
    """The plug-in that a contract about an SDK leaves out."""
    return PACKAGES - {str(name) for name in listed(contract, "source_modules")}


def test_names_of_entry_points_are_kept() -> None:
    """People read them in hints: which extra to install."""
    loaded = load(["one=costguard_aws", "costguard_gcp:Gcp", "gone=no_such_module"])
    assert loaded.names == ("one", "costguard_gcp")
    assert len(loaded.plug_ins) == 2
    assert loaded.failures[0].startswith("no_such_module: ModuleNotFoundError")


BROKEN = """
import http.client

from costguard.cloud.api import Capabilities, Consequence, Permission, Price, Setting

class Store:
    form = "any"
    def valid(self, name): return True

class Broken:
    name = "Broken"
    secret_store = Store()
    capabilities = Capabilities(verbs=("stop", "stop"), policies=True)
    settings = (Setting("api_key", "The key of the account, as its console shows it", "", "abc", "a text"),)
    def recognises(self, dmi): return True
    def instance_of(self, dmi): return "i-1"
    def guest_shutdown(self): return Consequence(False, None, "The bill goes on, and no word says what to do")
    def identify(self, site): return "i-1"
    def permissions(self, verbs, *, tag=False): return (Permission("everything", "to do"), Permission("everything", "to do"))
    def policy(self, verbs, *, tag=False): return "allow nothing"
    def commands(self, verbs, *, tag=False): return "ask an administrator"
    def price(self, identity): return Price(1.0, "USD", "anywhere", "", "a guess")
    def start_command(self, identity): return "start the machine\\nand wait"

class Another(Broken): ...

PROVIDER = Another()
"""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_bites(check: Callable[[Case], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check fails a plug-in that breaks its rule: a suite that nobody can fail proves nothing."""
    (tmp_path / "broken_plug_in.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with pytest.raises(AssertionError):
            check(Case("broken_plug_in:Broken", own=[{"sys_vendor": "Broken"}]))
    finally:
        sys.modules.pop("broken_plug_in", None)
