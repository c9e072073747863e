"""Options that several verbs share, with one meaning each."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")


def configuration(command: Callable[P, R]) -> Callable[P, R]:
    """The options that choose a configuration: --config --preset --mode --live --set --state-dir.

    The command gets ``config``, ``preset``, ``mode``, ``live``, ``assignments`` and ``state_dir``; `arguments` joins them.
    """
    for decorate in (
        click.option(
            "--state-dir", metavar="FOLDER", help="Folder of this agent's state; each one is an agent of its own."
        ),
        click.option(
            "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Set one option, such as grace=5m."
        ),
        click.option("--live", is_flag=True, help="The same as --mode live."),
        click.option("--mode", metavar="MODE", help="dry-run (the default) or live."),
        click.option("--preset", metavar="NAME", help="Start from a preset, such as gpu-sentinel."),
        click.option("--config", metavar="FILE", help="Read this file instead of /etc/costguard/config.toml."),
    ):
        command = decorate(command)
    return command


def arguments(
    *,
    config: str | None,
    preset: str | None,
    mode: str | None,
    live: bool,
    assignments: tuple[str, ...],
    state_dir: str | None,
) -> dict[str, object]:
    """What `costguard.config.load_effective` takes; raises click.UsageError for --live with another --mode."""
    if live and mode not in (None, "live"):
        raise click.UsageError(f"--live contradicts --mode {mode}")
    return {
        "config": config, "preset": preset, "mode": "live" if live else mode,
        "set": list(assignments), "state_dir": state_dir,
    }  # fmt: skip
