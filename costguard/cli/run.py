"""``costguard run``: check the configuration, say what will happen, become the guard."""

import os

import click

from costguard.cli import options
from costguard.errors import CostguardError

NO_HARDWARE = "No NVIDIA GPU on this machine: there is nothing to watch, so costguard ends here (exit code 0)."


@click.command()
@options.configuration
def command(arguments: options.Arguments) -> None:
    """Watch the GPUs and stop this machine when it earns nothing any more.

    Runs until it is stopped. Without --live it only says what it would do. On a machine without NVIDIA
    hardware it says so and ends with exit code 0; with another agent on the same folder it ends with 3.
    """
    from costguard.agent.console import Service
    from costguard.agent.launch import exec_guard
    from costguard.cli.hardware import nvidia_hardware
    from costguard.config.effective import build
    from costguard.config.load import load
    from costguard.config.show import origin
    from costguard.config.summary import summary

    loaded = load(_absolute(arguments), os.environ)
    if nvidia_hardware(loaded.settings.host.model_dump(mode="json")) is False:
        click.echo(NO_HARDWARE)
        Service(os.environ).tell(f"READY=1\nSTATUS={NO_HARDWARE}")  # an end before READY counts as a failed start
        return
    mode, idle, *_rest = summary(loaded.settings)
    click.echo(f"costguard watches this machine. {mode}\n{idle}")
    click.echo(
        f"Settings from {origin(loaded)}; state in {loaded.paths.state}. `costguard config check` says all of it."
    )
    try:
        exec_guard(build(loaded) | {"environment": _own_variables()}, os.environ)
    except OSError as error:
        raise CostguardError(
            f"the guard could not be started ({error.strerror}); nothing watches this machine",
            "see whether Python and costguard are still where they were installed, then install again",
            1,
        ) from error


def _own_variables() -> dict[str, str]:
    """What a reload needs of the environment."""
    return {name: value for name, value in os.environ.items() if name.startswith("COSTGUARD_")}


def _absolute(arguments: options.Arguments) -> options.Arguments:
    """The guard reads them again at a reload, wherever it is then."""
    paths = {name: os.path.abspath(str(arguments[name])) for name in ("config", "state_dir") if arguments[name]}
    return arguments | paths
