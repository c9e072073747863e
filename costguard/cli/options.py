"""Options that several verbs share."""

import functools
import os
import stat
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")

Arguments = dict[str, object]
"""What `costguard.config.load_effective` takes."""


def folder(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A folder that exists or can be created; the verb itself reports one that it cannot read."""
    if value is None:
        return None
    if not value.strip():
        raise click.BadParameter("it is empty; allowed: a folder")
    try:
        found = os.stat(os.path.expanduser(value))
    except (FileNotFoundError, PermissionError):
        return value
    except NotADirectoryError:
        raise click.BadParameter(f"a part of {value} is a file; allowed: a folder") from None
    except OSError as error:
        raise click.BadParameter(f"{value} cannot be used ({error.strerror}); allowed: a folder") from None
    if not stat.S_ISDIR(found.st_mode):
        raise click.BadParameter(f"{value} is a file; allowed: a folder")
    return value


def join(options: dict[str, Any]) -> Arguments:
    """Take the options of `configuration` out of those that click parsed, as one value."""
    given: Arguments = {name: options.pop(name) for name in ("config", "preset", "mode", "state_dir")}
    given["set"] = list(options.pop("assignments"))
    if options.pop("live"):
        if given["mode"] not in (None, "live"):
            raise click.UsageError(f"--live contradicts --mode {given['mode']}")
        given["mode"] = "live"
    return given


def named_folder(arguments: Arguments) -> str | None:
    """The folder that --state-dir names; None where it is not given."""
    return str(arguments["state_dir"]) if arguments["state_dir"] else None


def local_only(arguments: Arguments) -> Arguments:
    """The same for a verb that tells the person who types it: it works without a channel that leaves the machine."""
    given = arguments["set"]
    assert isinstance(given, list)  # as `join` makes it
    return {**arguments, "set": [*given, "notify.local_only=true"]}


def configuration(command: Callable[Concatenate[Arguments, P], R]) -> Callable[P, R]:
    """The options that choose a configuration; the command gets them joined, as its first argument."""

    @functools.wraps(command)
    def joined(*args: P.args, **kwargs: P.kwargs) -> R:
        return command(join(kwargs), *args, **kwargs)

    decorated: Callable[P, R] = joined
    for option in (
        click.option("--state-dir", callback=folder, metavar="FOLDER", help="Where this agent keeps its state."),
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Set one option: grace=5m."),
        click.option("--live", is_flag=True, help="The same as --mode live."),
        click.option("--mode", metavar="MODE", help="dry-run (the default) or live."),
        click.option("--preset", metavar="NAME", help="Start from a preset, such as gpu-sentinel."),
        click.option("--config", metavar="FILE", help="Read this file instead of /etc/costguard/config.toml."),
    ):
        decorated = option(decorated)
    return decorated
