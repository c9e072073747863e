"""The sample file, the reference and `config show` come from the schema and cannot drift."""

import re
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import ValidationError

from costguard.config.load import LoadedConfiguration, load
from costguard.config.options import OPTIONS
from costguard.config.presets import PRESETS
from costguard.config.reference import reference
from costguard.config.sample import sample, short
from costguard.config.schema import Settings
from costguard.config.show import _written, as_json, as_toml

NOWHERE = "/nonexistent/costguard.toml"


def load_text(folder: Path, text: str) -> LoadedConfiguration:
    path = folder / "config.toml"
    path.write_text(text)
    return load({"config": str(path)}, {}, NOWHERE)


def test_sample_is_the_defaults(tmp_path: Path) -> None:
    """As written, and with every option taken out of its comment, the sample is exactly the defaults."""
    assert load_text(tmp_path, sample()).settings == Settings()
    every = load_text(tmp_path, re.sub(r"(?m)^#(\w+ = )", r"\1", sample()))
    assert every.settings == Settings()
    assert set(every.written) == {path for path, option in OPTIONS.items() if not option.named}


@pytest.mark.parametrize("name", PRESETS)
def test_sample_of_a_preset_is_the_preset(tmp_path: Path, name: str) -> None:
    """`config init --full --preset` gives a file that behaves like the preset, and so does the short one."""
    command = '[actions.command]\nrun = "true"\n'
    text = sample(name).replace("[actions.command]\n", command)
    chosen = load({"preset": name, "set": ["actions.command.run=true"]}, {}, NOWHERE).settings
    assert load_text(tmp_path, text).settings == chosen
    if name != "none":
        by_hand = short(name) + "[actions.command]\nrun = 'true'\n"
        assert load_text(tmp_path, by_hand).settings == chosen


@pytest.mark.parametrize("name", PRESETS)
def test_the_short_file_is_short_and_what_it_proposes_holds(tmp_path: Path, name: str) -> None:
    """Twelve lines; with the lines in it that are only proposed, too."""
    text = short(name)
    assert len(text.splitlines()) <= 12
    proposed = re.sub(r"(?m)^# (\[.*\]|\w+ = .*)$", r"\1", text).replace("file:/etc/costguard/team.urls", "env:URLS")
    settings = load_text(tmp_path, proposed + "[actions.command]\nrun = 'true'\n").settings
    assert (settings.mode, settings.price_per_hour, list(settings.notify.channels)) == ("dry-run", 4.1, ["team"])


@pytest.mark.parametrize(("vendor", "action"), [("Amazon EC2", "stop"), ("Google", "stop"), ("LENOVO", "shutdown")])
def test_the_action_is_the_clouds_where_there_is_one(tmp_path: Path, vendor: str, action: str) -> None:
    """A shutdown from inside does not end the bill of every cloud; without a cloud there is nothing to ask."""
    (tmp_path / "class/dmi/id").mkdir(parents=True)
    for name, text in {"sys_vendor": vendor, "product_name": "Google Compute Engine", "bios_vendor": vendor}.items():
        (tmp_path / "class/dmi/id" / name).write_text(text if name != "product_name" or vendor == "Google" else "x")
    assert f'kill_action = "{action}"' in short(sysfs=str(tmp_path))


def test_reference_page_is_up_to_date() -> None:
    """`make docs` was run after the last change of the schema."""
    page = Path(__file__).parents[3] / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == reference(), "run `make docs`"


@pytest.mark.parametrize("path", OPTIONS)
def test_every_option_is_shown_as_it_may_be_written(path: str) -> None:
    """A unit that `config show` does not know would come out as a number that cannot be pasted back."""
    option = OPTIONS[path]
    key = path.rpartition(".")[2]
    needed = {"urls": "env:X"} if option.named else {}
    first = option.section.model_validate({**needed, key: option.example})
    shown = _written(option, getattr(first, key))
    with suppress(ValidationError):
        assert "***" in str(shown) or option.section.model_validate({**needed, key: shown}) == first
        return
    pytest.fail(f"{shown!r} cannot be pasted back: add the unit {option.unit!r} to `_written` of config/show.py")


@pytest.mark.parametrize("path", OPTIONS)
def test_every_option_is_explained(path: str) -> None:
    """Each has a description, what is allowed, an example that is accepted, and stands in sample and reference."""
    option = OPTIONS[path]
    assert option.description.endswith(".")
    assert option.allowed
    key = path.rpartition(".")[2]
    section: type = option.section
    assert section.__doc__
    needed = {"urls": "env:X"} if option.named else {}
    section.model_validate({**needed, key: option.example})  # type: ignore[attr-defined]  # a Section
    assert f"`{key}`" in reference()
    assert f"{key} = " in sample()


def test_show_can_be_pasted_into_a_file(tmp_path: Path) -> None:
    """`config show` is TOML with the same meaning, and names the source of every value."""
    arguments = {"preset": "gpu-sentinel", "set": ["deadline.lease=2027-01-31T18:00:00+01:00", "price_per_hour=1.5"]}
    loaded = load(arguments, {"COSTGUARD_HOLD__MAX": "90s"}, NOWHERE)
    text = as_toml(loaded)
    assert load_text(tmp_path, text).settings == loaded.settings
    assert re.search(r'(?m)^interval = "1s" +# preset gpu-sentinel$', text)
    assert re.search(r'(?m)^max = "90s" +# environment COSTGUARD_HOLD__MAX$', text)
    assert len(re.findall(r"(?m)^\w+ = .*  # \S", text)) == len([o for o in OPTIONS.values() if not o.named])
    tomllib.loads(text)


def test_show_masks_secrets() -> None:
    """Tokens of a command are not printed, neither as text nor as JSON."""
    run = 'actions.command.run=["curl", "--token", "S3CRET1", "https://u:S3CRET2@example.org/"]'
    loaded = load({"set": [run, "kill_action=command"]}, {}, NOWHERE)
    assert loaded.settings.actions.command.run[2] == "S3CRET1"
    for text in (as_toml(loaded), str(as_json(loaded))):
        assert "S3CRET" not in text
        assert "example.org" in text
