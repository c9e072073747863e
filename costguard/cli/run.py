"""``costguard run``: check the configuration, print what will happen, become the guard."""

import os
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from costguard.cli import options
from costguard.cli.examples import examples
from costguard.errors import CostguardError

if TYPE_CHECKING:
    from costguard.config.paths import Paths

ASK_SECONDS = 2.0
"""How long to wait for an agent that may run already."""

NO_HARDWARE = "No NVIDIA GPU on this machine, so there is nothing to watch: costguard exits with code 0."


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "costguard run",
        "costguard run --set kill_duration=30m --set grace=15m",
        "sudo costguard run --live --set kill_action=stop",
        "costguard run --preset gpu-sentinel --live && ./next-job.sh",
        "costguard run --live --set kill_action=end_task --state-dir /tmp/watch &",
    ),
)
@click.argument("program", nargs=-1, metavar="")
@options.configuration
def command(arguments: options.Arguments, program: tuple[str, ...]) -> None:
    """Watch the GPUs, and stop this machine when it is idle.

    It runs until it is stopped. Without --live it only says what it would do. On a machine without NVIDIA
    hardware it says so and exits with code 0; with code 3 if another agent uses the same folder.
    """
    from costguard.agent.task_words import name
    from costguard.cli.guarded import instance_of, task_of
    from costguard.cli.hardware import nvidia_hardware
    from costguard.config.addresses import lacks, missing
    from costguard.config.effective import build
    from costguard.config.load import load
    from costguard.config.show import origin
    from costguard.config.summary import summary
    from costguard.host.console import ServiceManager
    from costguard.process.launch import exec_guard
    from costguard.trust import clean

    if program:
        message = f"`costguard run` guards a machine, or a task, and starts no program, so {program[0]} would not run"
        raise CostguardError(message, f"`costguard exec -- {shlex.join(program)}` guards that one command")
    loaded = load(_absolute(arguments), os.environ, run_by=os.geteuid())
    if nvidia_hardware(loaded.settings.host.model_dump(mode="json")) is False:
        _say(NO_HARDWARE)
        # an exit before READY counts as a failed start
        ServiceManager(os.environ).tell(f"READY=1\nSTATUS={NO_HARDWARE}")
        return
    channels = loaded.settings.notify.model_dump(mode="json")["channels"]
    lacking = [lack._replace(certain=True) for lack in lacks(channels)]  # this process becomes the agent
    mode, idle, *_rest = summary(loaded.settings, lacking)
    effective = build(loaded)
    guarded = task_of(effective)
    if not _taken(loaded.paths):  # else the guard names the other agent, and this would be untrue
        about = f"Settings: {origin(loaded)}; state in {loaded.paths.state}. For details: `costguard config check`."
        what = name(guarded) if guarded else "this machine"
        _say(f"costguard watches {what}. {mode}", idle, about)
    environment, left_out = clean(os.environ, os.geteuid())
    _say(*left_out)
    try:
        own = {
            "environment": _own_variables(),
            "guarded": guarded,
            "instance": instance_of(effective, guarded),
            "unaddressed": missing(effective),
        }
        exec_guard(effective | own, environment)
    except OSError as error:
        raise CostguardError(
            f"the guard could not be started ({_named(error)}); nothing is watched",
            "check that Python and costguard are still where they were installed, or install again",
            1,
        ) from error


def _say(*lines: str) -> None:
    """Print it or drop it: a pipe that nobody reads must not keep the machine without its guard."""
    from costguard.host.console import Console

    with suppress(OSError):  # no standard output at all
        console = Console(1, {})
        for line in lines:
            console.say(line)
        console.close()


def _taken(paths: "Paths") -> bool:
    """Whether another agent has these folders, so that this one will fail at their lock."""
    from costguard.host.client import AgentBusyError, AgentUnreachableError, ask
    from costguard.host.lock import runtime_of

    for runtime in dict.fromkeys(filter(None, (paths.runtime, runtime_of(paths.state)))):
        try:
            ask(runtime, {"command": "status"}, ASK_SECONDS)
        except AgentBusyError:
            return True
        except AgentUnreachableError as error:
            if not isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
                return True
        else:
            return True
    return False


def _named(error: OSError) -> str:
    """The error with its file; execve(2) does not name it."""
    from costguard.process.command_lines import command_lines

    return f"{error.strerror}: {error.filename or command_lines()['guard'][0]}"


def _own_variables() -> dict[str, str]:
    """The part of the environment that a reload needs."""
    return {name: value for name, value in os.environ.items() if name.startswith("COSTGUARD_")}


def _absolute(arguments: options.Arguments) -> options.Arguments:
    """With absolute paths, since a reload happens in another folder."""
    paths = {name: os.path.abspath(str(arguments[name])) for name in ("config", "state_dir") if arguments[name]}
    return arguments | paths
