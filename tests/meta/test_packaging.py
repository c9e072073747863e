"""What is promised to packagers and users."""

import importlib
import re
import shlex
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import costguard
from costguard import extras
from costguard.doctor.service import SHIPPED
from costguard.doctor.units import Units, command

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_one_version() -> None:
    """The distribution and the package say the same."""
    assert PROJECT["project"]["version"] == costguard.__version__


def test_python_versions_agree() -> None:
    """Package metadata, linter and type checker speak of the same oldest Python."""
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert PROJECT["tool"]["ruff"]["target-version"] == "py311"
    assert PROJECT["tool"]["mypy"]["python_version"] == "3.11"
    assert sys.version_info >= (3, 11)


def test_every_provider_can_be_imported() -> None:
    """Each entry point names a class that exists, without any SDK installed."""
    declared = PROJECT["project"]["entry-points"]["costguard.providers"]
    found = {point.name: point.value for point in entry_points(group="costguard.providers")}
    assert found.items() >= declared.items()
    for target in declared.values():
        module, _, name = target.partition(":")
        assert isinstance(getattr(importlib.import_module(module), name), type)


def test_an_sdk_is_never_a_core_dependency() -> None:
    """Only an extra brings an SDK."""
    core = " ".join(PROJECT["project"]["dependencies"])
    optional = PROJECT["project"]["optional-dependencies"]
    for cloud in PROJECT["project"]["entry-points"]["costguard.providers"]:
        assert cloud in optional, f"give {cloud} an extra in pyproject.toml: [] where it has no SDK"
        for requirement in optional[cloud]:
            assert requirement.split(">")[0] not in core


def test_package_is_typed() -> None:
    """Users' type checkers see our types."""
    assert (Path(costguard.__file__).parent / "py.typed").exists()


def test_the_unit_comes_back_and_speaks_under_its_own_name(tmp_path: Path) -> None:
    """As doctor reads it: restarts, is wanted at boot once enabled, and the journal names costguard, not its starter."""
    (tmp_path / "multi-user.target.wants").mkdir()
    for link in ("costguard.service", "multi-user.target.wants/costguard.service"):
        (tmp_path / link).symlink_to(SHIPPED)
    units = Units([str(tmp_path)])
    settings = units.settings("costguard.service")
    assert units.starts_at_boot("costguard.service")
    assert settings["SyslogIdentifier"] == ["costguard"]
    assert settings["Restart"] == ["on-failure"]
    assert settings["RuntimeDirectoryPreserve"] == ["yes"], "a stop and a start within the boot keep what was seen"
    assert command(settings, {})[-2:] == ["costguard", "run"]


def test_no_advice_names_what_anybody_could_publish() -> None:
    """Costguard's own name on an index may be somebody else's: hints and pages name files, or libraries by their own names."""
    package = Path(costguard.__file__).parent
    clouds = (*package.parent.glob("costguard_*/**/*.py"), *ROOT.glob("providers/**/*.py"))
    places = [*ROOT.glob("docs/*.md"), ROOT / "README.md", *package.glob("**/*.py"), *clouds]
    advice = re.compile(r"(pip|pipx|uv|tool) (run|install|inject)[^\n`]*costguard-agent(?!-)")
    assert [path.name for path in places if advice.search(path.read_text(encoding="utf-8"))] == []


def test_the_advice_for_an_extra_names_its_libraries() -> None:
    """As the project asks for them, for the environment that runs."""
    wanted = PROJECT["project"]["optional-dependencies"]
    assert (wanted["picture"], wanted["fast"]) == ([extras.PICTURE], [extras.FAST])
    assert wanted["stress"] == [extras.STRESS]
    for cloud in PROJECT["project"]["entry-points"]["costguard.providers"]:
        assert cloud in wanted, f"give {cloud} an extra in pyproject.toml: [] where it has no SDK"
        if not wanted[cloud]:
            continue
        assert shlex.split(extras.command(cloud)) == shlex.split(extras.install(*wanted[cloud]))
    said = shlex.split(extras.install(extras.PICTURE))
    assert sys.executable in said
    assert said[-1] == extras.PICTURE


def test_the_advice_for_a_plug_in_of_somebody_else_is_no_command() -> None:
    """Nobody here knows what it needs."""
    assert extras.command("nowhere").startswith("install the library that the plug-in 'nowhere' needs")
