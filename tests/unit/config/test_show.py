"""Where values came from."""

import json
from pathlib import Path

import pytest

from costguard.config.load import ConfigurationError, load
from costguard.config.show import as_json, as_toml, origin


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ({}, {}, "the built-in defaults"),
        ({"set": ["grace=5m"]}, {}, "the command line"),
        ({"mode": "dry-run"}, {"COSTGUARD_GRACE": "5m"}, "the environment and the command line"),
        ({"preset": "gpu-sentinel"}, {}, "preset gpu-sentinel and the command line"),
        ({"config": "FILE", "set": ["grace=5m"]}, {}, "FILE and the command line"),
        ({"config": "FILE"}, {}, "FILE"),
        (
            {"config": "FILE", "preset": "gpu-sentinel"},
            {"COSTGUARD_GRACE": "5m"},
            "preset gpu-sentinel, FILE, the environment and the command line",
        ),
    ],
)
def test_every_source_is_named(
    tmp_path: Path, arguments: dict[str, object], environment: dict[str, str], words: str
) -> None:
    """*Built-in defaults* only where nothing else was given."""
    file = tmp_path / "config.toml"
    file.write_text('interval = "5s"\n')
    given = {name: str(file) if value == "FILE" else value for name, value in arguments.items()}
    assert origin(load(given, environment, "/nonexistent/x.toml")) == words.replace("FILE", str(file))


@pytest.mark.parametrize(
    "run", ['["curl", "{}"]', '"curl -d idle {}"', '["curl", "--url={}"]', '["sh", "-c", "curl {} | cat"]']
)
def test_an_address_in_a_command_is_shown_without_its_secret(tmp_path: Path, run: str) -> None:
    """A command that tells a chat names its webhook."""
    file = tmp_path / "config.toml"
    address = "https://hooks.slack.com/services/T0/hidden-part"
    file.write_text(f"[actions.command]\nrun = {run.format(address)}\n[hooks]\npre_stop = {run.format(address)}\n")
    loaded = load({"config": str(file)}, {}, "/nonexistent/x.toml")
    for shown in (as_toml(loaded), json.dumps(as_json(loaded))):
        assert shown.count("https://hooks.slack.com/***") == 2
        assert "hidden-part" not in shown


@pytest.mark.parametrize("option", ["sink.url", "heartbeat.url", "cloud.api_endpoint"])
@pytest.mark.parametrize(
    "wrong",
    [
        "hooks.slack.com/services/hidden-part", "https://hooks.slack.com/services/T hidden-part", "ftp://h/hidden-part",
        "https://me:hidden-part@h/x", "slack://hidden-part/x", "https:/hooks.slack.com/hidden-part",
    ],
)  # fmt: skip
def test_an_error_about_an_address_does_not_quote_its_secret(option: str, wrong: str) -> None:
    """Scheme and host are enough to find the mistake."""
    with pytest.raises(ConfigurationError) as caught:
        load({"set": [f"{option}={wrong}"]}, {}, "/nonexistent/x.toml")
    assert option in str(caught.value)
    assert "hidden-part" not in str(caught.value)


@pytest.mark.parametrize("option", ["sink.url", "heartbeat.url"])
def test_an_address_that_is_a_secret_is_shown_without_its_secret(tmp_path: Path, option: str) -> None:
    """A webhook is used by whoever knows it; its server is enough to recognise it."""
    section, _, name = option.partition(".")
    file = tmp_path / "config.toml"
    file.write_text(f'[{section}]\n{name} = "https://hooks.example.org/services/T0/hidden-part?x=hidden-part"\n')
    loaded = load({"config": str(file)}, {}, "/nonexistent/x.toml")
    for shown in (as_toml(loaded), json.dumps(as_json(loaded))):
        assert "https://hooks.example.org/***" in shown
        assert "hidden-part" not in shown
