"""The tables of cloud plug-ins: found in what is installed, checked as every other option, with their former names."""

import json
from pathlib import Path
from typing import Any

import pytest

from costguard.cloud.api import Setting, site_settings
from costguard.config import load as load_module
from costguard.config import load_effective
from costguard.config.load import ConfigurationError, load
from costguard.config.options import OPTIONS
from costguard.config.plug_ins import CLOUDS
from costguard.config.schema import CloudSection, Section, Settings, option
from costguard.config.show import as_json
from costguard.config.sources import read_file
from costguard.testing.contract import SHARED

OLD, NEW = "cloud.scheduled_events", "cloud.azure.scheduled_events"


def loaded(tmp_path: Path, text: str, *sets: str, **environment: str) -> dict[str, Any]:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    given = load({"config": str(file), "set": list(sets)}, environment)
    found = as_json(given)["options"]
    assert isinstance(found, dict)
    return found


def test_every_option_of_a_plug_in_is_one_of_the_configuration() -> None:
    """With its own words, under the name of its entry point."""
    for name, provider in CLOUDS.installed.items():
        for one in getattr(provider, "settings", ()):
            assert OPTIONS[f"cloud.{name}.{one.name}"].description == one.description
    assert NEW in OPTIONS
    assert OLD not in OPTIONS


def test_the_contract_knows_the_options_of_every_cloud() -> None:
    """A plug-in may not have one of the same name: it would hide it."""
    assert set(CloudSection.model_fields) - set(CLOUDS.installed) < SHARED


@pytest.mark.parametrize("text", ["[cloud]\nscheduled_events = true\n", "[cloud.azure]\nscheduled_events = true\n"])
def test_a_file_of_either_age_is_read(tmp_path: Path, text: str) -> None:
    """And the line is named where it stands."""
    found = loaded(tmp_path, text)
    assert found[NEW] == {"value": True, "source": f"{tmp_path / 'config.toml'}:2"}


def test_a_former_name_counts_from_everywhere(tmp_path: Path) -> None:
    """Environment and command line, of the option's own type; the later source wins whatever name it uses."""
    new_file = "[cloud.azure]\nscheduled_events = true\n"
    assert loaded(tmp_path, "", COSTGUARD_CLOUD__SCHEDULED_EVENTS="true")[NEW]["value"] is True
    assert loaded(tmp_path, new_file, f"{OLD}=false")[NEW]["value"] is False
    assert loaded(tmp_path, "[cloud]\nscheduled_events = false\n", f"{NEW}=true")[NEW]["value"] is True


def test_one_option_under_two_names_is_a_problem(tmp_path: Path) -> None:
    """Nobody could say which one was meant."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, "[cloud]\nidentity = 'a'\n[cloud.azure]\nidentity = 'b'\n")
    (problem,) = caught.value.problems
    assert problem.startswith("At 'cloud.identity': ")
    assert "cloud.azure.identity" in problem
    assert "allowed: one of them" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[cloud.azure]\nscheduled_events = 'yes'\n", "allowed: true or false"),
        ("[cloud.azure]\nidentiti = 'a'\n", "did you mean 'cloud.azure.identity'?"),
        ("[cloud]\nidentiti = 'a'\n", "there is no such option"),
        ("[cloud.azure.identity]\nx = 1\n", "cloud.azure.identity"),
        ("[cloud.nowhere]\nkey_file = '/x'\n", "no installed plug-in with that name"),
    ],
)
def test_a_slip_is_found(tmp_path: Path, text: str, words: str) -> None:
    """With the path and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, text)
    assert words in str(caught.value)


def test_a_plug_in_sees_its_own_table_and_what_all_share(tmp_path: Path) -> None:
    """Beside it no other plug-in's; and what has an effect only where it may have one."""
    file = tmp_path / "config.toml"
    file.write_text(
        "[cloud]\ngroup = 'leave'\n[cloud.azure]\nidentity = 'me'\nscheduled_events = true\n", encoding="utf-8"
    )
    cloud = load_effective({"config": str(file)}, {})["cloud"]
    assert isinstance(cloud, dict)
    json.dumps(cloud)
    azure = CLOUDS.installed["azure"]
    mine = site_settings(cloud, "azure", azure)
    assert (mine["group"], mine["identity"], mine["scheduled_events"]) == ("leave", "me", True)
    assert "azure" not in mine
    assert site_settings({**cloud, "live": True}, "azure", azure)["scheduled_events"] is True
    assert site_settings({**cloud, "live": False}, "azure", azure)["scheduled_events"] is False
    other = site_settings(cloud, "aws", CLOUDS.installed["aws"])
    assert (other["group"], "identity" in other, "azure" in other) == ("leave", False, False)


def test_each_kind_of_setting_takes_its_own_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a plug-in that is not of this project would declare them."""

    class Mine:
        name = "My Cloud"
        settings = (
            Setting("size", "How large it is, in a word of its own", "s", "l", "s or l", "choice", choices=("s", "l")),
            Setting(
                "loud",
                "Whether it makes a noise when it ends",
                default=False,
                example=True,
                allowed="true",
                kind="switch",
            ),
            Setting("address", "Where its own service is", "", "https://a.example", "a URL", "url"),
            Setting("key_file", "Where the key of the account stands", "", "/etc/key", "an absolute path", "file"),
            Setting("label", "A word for people", "", "x", "a text"),
        )

    monkeypatch.setattr(CLOUDS, "installed", {"mine": Mine()})
    table = CLOUDS.tables(Section, option)
    good = {"size": "l", "loud": True, "address": "https://a.example/", "key_file": "/k", "label": "é"}
    made = table(mine=good).mine.model_dump()
    assert made == {**good, "address": "https://a.example"}
    assert table().mine.model_dump() == {"size": "s", "loud": False, "address": "", "key_file": "", "label": ""}
    for name, wrong in (("size", "m"), ("loud", "true"), ("address", "a.example"), ("key_file", "k"), ("label", 1)):
        with pytest.raises(ValueError, match=name):
            table(mine={name: wrong})
    assert CLOUDS.files() == [("mine", "key_file")]


def test_a_file_without_former_names_is_left_alone(tmp_path: Path) -> None:
    """Nothing is renamed that is not listed."""
    file = tmp_path / "config.toml"
    file.write_text("[cloud]\ngroup = 'leave'\n", encoding="utf-8")
    layer = read_file(str(file), required=True)
    assert (set(layer.found), layer.problems) == ({"cloud.group"}, [])
    assert Settings().cloud.group == "notify"


def test_a_plug_in_that_is_wrong_about_its_options_keeps_no_guard_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has none, and whoever sets one reads why; every other plug-in has its own."""
    good = Setting("label", "A word for people", "", "x", "a text")
    wrong = {
        "default": (good._replace(default="k", kind="file"),),
        "hidden": (good._replace(name="_label"),),
        "_name": (good,),
        "junk": ("label", None),
        "method": lambda: (good,),
        "fine": (good,),
    }
    made = {
        name: type(name, (), {"name": name, "settings": staticmethod(given) if callable(given) else given})()
        for name, given in wrong.items()
    }
    monkeypatch.setattr(CLOUDS, "installed", made)
    monkeypatch.setattr(CLOUDS, "unfit", {})
    assert set(CLOUDS.tables(Section, option).model_fields) == {"fine"}
    assert set(CLOUDS.unfit) == {"default", "hidden", "_name"}
    assert [CLOUDS.own(name) for name in wrong] == [(), (), (), (), (), (good,)]
    monkeypatch.setitem(CLOUDS.unfit, "default", "no default")
    monkeypatch.setitem(load_module._OF_PLUG_INS, "cloud", CLOUDS.unfit)
    assert "no default" in load_module._unknown("cloud.default.label", "x")
