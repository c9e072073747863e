"""Where values came from."""

from pathlib import Path

import pytest

from costguard.config.load import load
from costguard.config.show import origin


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
