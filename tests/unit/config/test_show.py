"""Where values came from."""

import json
from pathlib import Path

import pytest

from costguard.config.load import load
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
