"""``costguard doctor``: whether this machine is guarded, and what to do where it is not."""

import json
import os
from typing import TYPE_CHECKING

import click

from costguard.cli import options, reach

if TYPE_CHECKING:
    from costguard.doctor.examine import Agent, Configuration
    from costguard.doctor.finding import Report

ASK_SECONDS = 5.0
MARKS = {"ok": "ok  ", "note": "-   ", "warn": "WARN", "bad": "BAD "}
STYLES = {"ok": "green", "note": "", "warn": "yellow", "bad": "bold red"}


@click.command()
@options.configuration
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(arguments: options.Arguments, *, as_json: bool) -> None:
    """Look at everything that guarding this machine needs, and say GUARDED (exit code 0) or NOT GUARDED (1).

    Changes nothing, sends nothing, and needs no agent. Of the network it uses only what the plan of a cloud action
    needs, where no agent has made it. Give it the options that `run` was given.
    """
    from costguard.doctor.examine import examine

    folder = str(arguments["state_dir"]) if arguments["state_dir"] else None
    report = examine(_configuration(arguments), _agent(folder), os.environ)
    if as_json:
        sections = {s.name: [check._asdict() for check in s.checks] for s in report.sections}
        shown = {"guarded": report.guarded, "why": report.why, "sections": sections, **report.facts}
        click.echo(json.dumps(shown, ensure_ascii=False, indent=2))
    else:
        _show(report)
    raise SystemExit(0 if report.guarded else 1)


def _configuration(arguments: options.Arguments) -> "Configuration":
    from costguard.config.effective import build
    from costguard.config.load import ConfigurationError, load
    from costguard.config.paths import DEFAULT_CONFIG
    from costguard.doctor.examine import Configuration

    try:
        loaded = load(arguments, os.environ)
    except ConfigurationError as error:
        return Configuration(None, tuple(error.problems), str(arguments["config"] or DEFAULT_CONFIG))
    return Configuration(build(loaded), (), loaded.source)


def _agent(folder: str | None) -> "Agent":
    from costguard.agent.client import AgentUnreachableError
    from costguard.doctor.examine import Agent
    from costguard.errors import CostguardError

    try:
        return Agent(reach.request(folder, {"command": "status"}, ASK_SECONDS), "", "")
    except CostguardError as error:
        return Agent(None, error.message, error.hint, silent=isinstance(error, AgentUnreachableError))


def _show(report: "Report") -> None:
    from rich.console import Group, RenderableType
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from costguard.cli.render import clean, console, show

    parts: list[RenderableType] = []
    for section in (each for each in report.sections if each.checks):
        parts.append(Text(section.name, style="bold"))
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold", ratio=1)
        for check in section.checks:
            text: RenderableType = Text(clean(check.text))
            if check.hint:
                text = Group(text, Text(f"-> {clean(check.hint)}", style="cyan"))
            table.add_row(Text(MARKS[check.level], style=STYLES[check.level]), text)
        parts += [Padding(table, (0, 0, 0, 2)), Text()]
    if report.guarded:
        parts.append(
            Text(
                f"GUARDED: when nothing works here any more, people are warned, then comes {report.facts['action']}",
                style="bold green",
            )
        )
    else:
        parts.append(Text("NOT GUARDED, because", style="bold red"))
        parts += [Padding(Text(f"- {clean(why)}", style="red"), (0, 0, 0, 2)) for why in report.why]
    screen = console()
    show(screen, Group(*parts))
