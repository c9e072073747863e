"""``costguard doctor``: whether this machine is guarded, and what is missing."""

import os
from typing import TYPE_CHECKING, Any

import click

from costguard.cli import options, reach, zone
from costguard.cli.answer import emit
from costguard.cli.examples import examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from costguard.doctor.examine import AgentAnswer, Configuration
    from costguard.doctor.finding import Report

ASK_SECONDS = 5.0
MARKS = {"ok": "ok  ", "note": "-   ", "warn": "WARN", "unseen": "?   ", "bad": "BAD "}
EXIT_CODES = {"GUARDED": 0, "NOT GUARDED": 1, "WOULD BE GUARDED": 4, "CANNOT TELL": 5}
"""A dry run is not a success for a script that wants a guard; 2 and 3 mean the same for every verb."""

STYLES = {"ok": "green", "note": "", "warn": "yellow", "unseen": "yellow", "bad": "bold red"}
CANNOT_TELL = "CANNOT TELL as this user whether it is guarded: `sudo costguard doctor` can"


@click.command(epilog=examples("costguard doctor", "sudo costguard doctor --json", "costguard doctor --live"))
@options.configuration
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(arguments: options.Arguments, *, as_json: bool) -> None:
    """Check everything that guarding this machine needs, and say whether it is guarded.

    \b
    GUARDED (exit code 0): proven, live, and it comes back after a boot.
    WOULD BE GUARDED (4): only live mode is missing.
    CANNOT TELL (5): nothing is missing, but this user may not see all; root may.
    NOT GUARDED (1): something is missing or cannot be proven; every reason is named.

    It changes nothing, sends no message and needs no agent. It uses the network only to plan a cloud action that no
    agent has planned. Use the same options as for `run`.
    """  # noqa: D301 - click keeps the lines of a paragraph that begins with the character of \b
    from costguard.doctor.examine import examine
    from costguard.doctor.messages import uid_of

    folder = options.named_folder(arguments)
    agent = _agent(folder)
    user = uid_of("/proc", agent.report)
    report = examine(
        _configuration(*_given(arguments, folder, agent), user),
        agent,
        os.environ,
        lambda given, environment: _as_run(given, environment, user),
    )
    if as_json:
        sections = {s.name: [check._asdict() for check in s.checks] for s in report.sections}
        verdict = {"guarded": report.guarded, "verdict": report.verdict, "why": report.why}
        shown = {**verdict, "sections": sections, **report.facts}
        emit("doctor", shown)
    else:
        _show(report)
    raise SystemExit(EXIT_CODES[report.verdict])


def _given(
    arguments: options.Arguments, folder: str | None, agent: "AgentAnswer"
) -> "tuple[options.Arguments, Mapping[str, str]]":
    """The options and the environment of the configuration: those typed, else those with which the agent was started."""
    if agent.report is None:
        return arguments, os.environ
    typed = {name for name, value in arguments.items() if value and name != "state_dir"}
    begun = {} if typed else _started_with(folder)
    if begun:
        own = {name: text for name, text in os.environ.items() if not name.startswith("COSTGUARD_")}
        return {**arguments, **begun["arguments"]}, {**own, **begun["environment"]}
    source = agent.report["agent"]["source"]
    return {**arguments, "config": arguments["config"] or source or None}, os.environ


def _started_with(folder: str | None) -> "dict[str, dict[str, Any]]":
    """What the agent was started with; empty where it does not say that to this user, or is of an earlier version."""
    from costguard.errors import CostguardError

    try:
        found = reach.request(folder, {"command": "begun"}, ASK_SECONDS)
    except CostguardError:
        return {}
    return found if "arguments" in found else {}


def _as_run(given: "Sequence[str]", environment: "Mapping[str, str]", user: int) -> "Configuration":
    """What `costguard run` with these options would start with."""
    from costguard.cli.run import command as run
    from costguard.doctor.examine import Configuration

    try:
        arguments = options.join(run.make_context("run", list(given)).params)
    except click.ClickException as error:
        return Configuration(None, (error.format_message(),), "")
    except click.exceptions.Exit:  # --help
        return Configuration(None, ("it would only print its help",), "")
    return _configuration(arguments, environment, user)


def _configuration(arguments: options.Arguments, environment: "Mapping[str, str]", user: int) -> "Configuration":
    from costguard.config.effective import build
    from costguard.config.here import absent
    from costguard.config.load import ConfigurationError, load
    from costguard.config.paths import DEFAULT_CONFIG
    from costguard.config.show import source_of
    from costguard.doctor.examine import Configuration

    try:
        loaded = load(arguments, environment, run_by=user)
    except ConfigurationError as error:
        source = str(arguments["config"] or DEFAULT_CONFIG)
        denied = error.denied and user != os.geteuid()  # an agent of this user's own could not read it either
        return Configuration(None, tuple(error.problems), source, denied=denied)
    return Configuration(build(loaded), (), loaded.source, source_of(loaded, "mode"), tuple(absent(loaded.settings)))


def _agent(folder: str | None) -> "AgentAnswer":
    from costguard.doctor.examine import AgentAnswer
    from costguard.errors import CostguardError
    from costguard.host.client import AgentBusyError, AgentUnreachableError

    try:
        report = reach.status(folder, ASK_SECONDS)
        zone.adopt(report)
        return AgentAnswer(report, "", "")
    except CostguardError as error:
        return AgentAnswer(
            None, error.message, error.hint, silent=isinstance(error, AgentUnreachableError | AgentBusyError)
        )


def _show(report: "Report") -> None:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from costguard.cli.render import clean, console, show

    parts: list[RenderableType] = (
        [Text(CANNOT_TELL, style="bold yellow"), Text()] if report.verdict == "CANNOT TELL" else []
    )
    for section in filter(lambda section: section.checks, report.sections):
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
    parts += _last_words(report)
    show(console(), Group(*parts))


def _last_words(report: "Report") -> "list[RenderableType]":
    from rich.padding import Padding
    from rich.text import Text

    from costguard.agent.task_words import name
    from costguard.cli.render import clean
    from costguard.engine.wording import wording_of

    action, task = wording_of(str(report.facts["action"])).word, report.facts["task"]
    if report.verdict == "GUARDED":
        unseen = "" if report.facts["reached"] else " (nobody would see it now)"
        what = clean(name(task)) if task else "this machine"
        text = f"GUARDED: when {what} is idle, a warning{unseen}, then {action}"
        return [Text(text, style="bold green")]
    if report.verdict == "WOULD BE GUARDED":
        text = f"WOULD BE GUARDED in live mode; this is a dry run, so {action} never happens"
        return [Text(text, style="bold yellow")]
    title, style = ("NOT GUARDED, because", "red")
    if report.verdict == "CANNOT TELL":
        title, style = (f"{CANNOT_TELL}, because", "yellow")
    reasons = [Padding(Text(f"- {clean(why)}", style=style), (0, 0, 0, 2)) for why in report.why]
    return [Text(title, style=f"bold {style}"), *reasons]
