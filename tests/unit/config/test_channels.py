"""Tables that people name: `[notify.channels.NAME]`, from every source, each mistake at once, and no secret repeated."""

import importlib
from pathlib import Path
from typing import get_args

import pytest

from costguard.cloud.api import load as load_plug_ins
from costguard.config.load import ConfigurationError, load
from costguard.config.options import FIT_NAME, OPTIONS
from costguard.config.plug_ins import CLOUDS
from costguard.config.show import as_json, as_toml
from costguard.config.types import LocalChannel
from costguard.notify.delivery import LOCAL_CHANNELS

NOWHERE = "/nonexistent/costguard.toml"
CHOICES = get_args(LocalChannel)
"""The channels of this machine that `notify.local` takes."""


def problems(folder: Path, text: str) -> str:
    """All of them, as people read them."""
    (folder / "config.toml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load({"config": str(folder / "config.toml")}, {}, NOWHERE)
    return caught.value.message


def test_channels_come_from_file_environment_and_command_line(tmp_path: Path) -> None:
    """Each has its defaults, and `config show` names the source and can be pasted back."""
    file = tmp_path / "config.toml"
    file.write_text('[notify.channels.team]\nurls = "file:/etc/costguard/team"\nlevel = "warning"\n')
    environment = {"COSTGUARD_NOTIFY__CHANNELS__MAIL__URLS": "env:MAIL"}
    loaded = load({"config": str(file), "set": ["notify.channels.team.kinds=warning,held"]}, environment, NOWHERE)
    channels = {name: channel.model_dump() for name, channel in loaded.settings.notify.channels.items()}
    assert channels == {
        "team": {"urls": "file:/etc/costguard/team", "level": "warning", "kinds": ("warning", "held")},
        "mail": {"urls": "env:MAIL", "level": "info", "kinds": ()},
    }
    assert as_json(loaded)["options"]["notify.channels.mail.urls"] == {  # type: ignore[index]  # a table
        "value": "env:MAIL", "source": "environment COSTGUARD_NOTIFY__CHANNELS__MAIL__URLS",
    }  # fmt: skip
    file.write_text(as_toml(loaded))
    assert load({"config": str(file)}, {}, NOWHERE).settings == loaded.settings


def test_every_mistake_is_reported_and_no_secret_is(tmp_path: Path) -> None:
    """An address in the place of its reference is not repeated; a table that lacks what it needs names that."""
    text = """
        notify.attempts = 0
        [notify.channels.team]
        urls = "slack://s3cret/a/b"
        [notify.channels.mail]
        kinds = ["warning", "gossip"]
        [notify.channels.x]
        urls = "env:X"
        lvel = "info"
    """
    said = problems(tmp_path, text)
    assert "s3cret" not in said
    for words in (
        "At 'notify.channels.team.urls': this does not say where the addresses are; allowed: file:/PATH",
        "At 'notify.channels.mail.urls': it is missing, so no address is known",
        "At 'notify.channels.mail.kinds': 'gossip' is not a kind of message",
        "At 'notify.channels.x.lvel': there is no such option; did you mean 'notify.channels.x.level'?",
        "At 'notify.attempts': 0 is out of range",
    ):
        assert words in said


@pytest.mark.parametrize("name", ["Team", "wall", "terminal", "task", '"my team"', "_x", "9"])
def test_a_name_that_cannot_be_one(tmp_path: Path, name: str) -> None:
    """It would stand in variables of the environment, or be taken for a channel of this machine."""
    assert "is not a valid name" in problems(tmp_path, f'[notify.channels.{name}]\nurls = "env:X"\n')


@pytest.mark.parametrize("channel", LOCAL_CHANNELS)
def test_every_channel_of_this_machine_can_be_chosen(channel: str) -> None:
    """What can be delivered can be configured, is described, and gives its name to no channel beyond the machine."""
    assert channel in CHOICES, f"add {channel!r} to LocalChannel of config/types.py"
    local = OPTIONS["notify.local"]
    assert f'"{channel}"' in local.allowed, f"name {channel} in `allowed` of notify.local in config/schema.py"
    assert f"`{channel}`" in local.description, f"say in the description of notify.local what {channel} is"
    assert not FIT_NAME.fullmatch(channel)


def test_every_channel_that_can_be_chosen_delivers() -> None:
    """A name without a module would fail with the first message."""
    unlike = set(CHOICES) ^ set(LOCAL_CHANNELS)
    assert not unlike, (
        f"LOCAL_CHANNELS of notify/delivery.py and LocalChannel of config/types.py differ: {sorted(unlike)}"
    )
    for module in LOCAL_CHANNELS.values():
        assert callable(importlib.import_module(module).deliver), module


def test_the_former_spelling_is_understood(tmp_path: Path) -> None:
    """A list of channels of this machine is now `notify.local`; both at once is a mistake."""
    (tmp_path / "config.toml").write_text('[notify]\nchannels = ["wall"]\n')
    loaded = load({"config": str(tmp_path / "config.toml")}, {}, NOWHERE)
    assert loaded.settings.notify.local == ("wall",)
    assert load({"set": ["notify.channels=[]"]}, {}, NOWHERE).settings.notify.local == ()
    assert "old name" in problems(tmp_path, '[notify]\nchannels = ["wall"]\nlocal = ["wall"]\n')


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("https://h.example.org/{instance}", True), ("http://h/x?m={machine}&i={incident}", True), ("", True),
        ("https://h.example.org/hold", False), ("https://h.example.org/{user}", False), ("h.example.org/{instance}", False),
    ],
)  # fmt: skip
def test_a_link_names_the_machine_that_it_holds(url: str, fits: bool) -> None:
    """One for all machines would hold any of them; a name that nobody fills in would stand there as it is."""
    if fits:
        assert load({"set": [f"notify.hold_url={url}"]}, {}, NOWHERE).settings.notify.hold_url == url
    else:
        with pytest.raises(ConfigurationError, match=r"notify\.hold_url"):
            load({"set": [f"notify.hold_url={url}"]}, {}, NOWHERE)


SECRET = '[notify.channels.team]\nurls = "secret:team/urls"\n'


def test_a_reference_to_the_cloud_is_shown_as_it_is(tmp_path: Path) -> None:
    """It says where a secret stands; what looks like one elsewhere is hidden."""
    (tmp_path / "config.toml").write_text(SECRET)
    loaded = load({"config": str(tmp_path / "config.toml")}, {}, NOWHERE)
    assert 'urls = "secret:team/urls"' in as_toml(loaded)
    assert "'value': 'secret:team/urls'" in str(as_json(loaded))


@pytest.mark.parametrize(
    ("cloud", "words"),
    [
        ('provider = "none"', "cloud.provider is none"),
        ('metadata = "never"', "this machine has no identity to read it with"),
        ('provider = "azure"', "this is not the name of a secret in Azure; allowed: secret:NAME with VAULT/SECRET"),
        ('provider = "gcp"', "this is not the name of a secret in Google Cloud; allowed: secret:NAME with"),
    ],
)
def test_a_secret_that_cannot_be_read_is_refused_beforehand(tmp_path: Path, cloud: str, words: str) -> None:
    """With what is allowed; the name may be the secret itself, and is not repeated."""
    said = problems(tmp_path, f"{SECRET.replace('team/urls', 's3cret/a/b/c')}[cloud]\n{cloud}\n")
    assert "At 'notify.channels.team.urls'" in said
    assert words in said
    assert "s3cret" not in said


def test_a_cloud_without_a_store_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with everything that a plug-in lacks."""
    example = Path(__file__).parents[2] / "contract" / "example"
    monkeypatch.syspath_prepend(str(example))
    (provider,) = load_plug_ins(["costguard_example:Example"]).plug_ins
    monkeypatch.setitem(CLOUDS.installed, "example", provider)
    said = problems(tmp_path, f'{SECRET}[cloud]\nprovider = "example"\n')
    assert "the plug-in for Example Cloud reads no secrets; allowed: file:/PATH, env:NAME, credential:NAME" in said


@pytest.mark.parametrize(
    ("channel", "fine"),
    [
        ('level = "critical"', False), ('kinds = ["done"]', False), ('level = "warning"', True),
        ('level = "critical"\nkinds = ["warning"]', True), ("", True),
    ],
)  # fmt: skip
def test_live_mode_needs_a_channel_that_gets_warnings(tmp_path: Path, channel: str, fine: bool) -> None:
    """A pager that is silent while all goes well warns nobody."""
    file = tmp_path / "config.toml"
    text = f'mode = "live"\n[notify.channels.pager]\nurls = "env:PAGER"\n{channel}\n'
    file.write_text(text)
    if fine:
        assert load({"config": str(file)}, {}, NOWHERE).settings.mode == "live"
        return
    assert "no channel would get its warnings" in problems(tmp_path, text)
    file.write_text(text.replace("[notify", "[notify]\nlocal_only = true\n[notify", 1))
    assert load({"config": str(file)}, {}, NOWHERE).settings.mode == "live"
