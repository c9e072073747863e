"""``costguard notify``: whether messages arrive."""

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from costguard.cli import options
from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.errors import USAGE, CostguardError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = 40.0
"""For all channels together: a service that is busy may ask to wait."""

START_SECONDS = 15.0
"""For the worker to begin, and to load what it needs."""

FAILED = 1
"""Exit code: a channel did not take it."""


ENDED = "the worker ended without an answer, so it is unknown whether anything was sent: `sudo costguard notify test`"
"""Where it could not even start: a folder of costguard that this user may not read, or too little memory."""

TAKEN = "Look whether the message is there: ok says that the service took it, not that anybody can read it."
"""What a test proves of a channel beyond this machine: some take everything, and show it to nobody."""

CLOSED = "only root or the agent's user may read the file with its addresses: `sudo costguard notify test`"
"""Why an ordinary user cannot test a channel, and what to do."""


class Arrival(NamedTuple):
    """What came of a test on one channel: who got it, and what failed there, each empty where there is nothing to say."""

    channel: str
    arrived: bool
    reached: str = ""
    failed: str = ""

    @property
    def nobody(self) -> bool:
        """Whether it is a channel of this machine that found nobody there."""
        from costguard.notify.terminal import NONE_OWN
        from costguard.notify.wall import NOBODY

        return self.failed in {NOBODY, NONE_OWN}

    @property
    def mark(self) -> str:
        """How it went, in one word."""
        return "ok" if self.arrived else "nobody" if self.nobody else "FAILED"


@click.group(name="notify", short_help="Test the channels.", epilog=examples("sudo costguard notify test"))
def command() -> None:
    """Find out whether messages reach people."""


@command.command(
    short_help="Send a test message over every channel, and report the results.",
    epilog=examples("sudo costguard notify test", "sudo costguard notify test --channel terminal"),
)
@click.option("--channel", "wanted", multiple=True, metavar="NAME", help="Only this one; may be given several times.")
@options.configuration
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def test(arguments: options.Arguments, *, wanted: tuple[str, ...], as_json: bool) -> None:
    """Send a test message over every channel, also in dry run, and report the result of each.

    Nothing happens to the machine. Run it as the agent's user (with sudo), who may read the addresses. Exit code 1 when
    a channel did not take the message. If another channel took it, it does not matter that nobody is at a terminal.
    """
    from costguard.config import load_effective

    effective: dict[str, Any] = load_effective(options.local_only(arguments), os.environ)
    chosen = _chosen(effective, wanted)
    arrivals, kept = _tried(effective, chosen)
    if as_json:
        emit("notify-test", {"channels": [arrival._asdict() for arrival in arrivals], "recorded": kept})
    else:
        _show(arrivals)
        if any(one.arrived and one.channel in effective["notify"]["channels"] for one in arrivals):
            click.echo(TAKEN, err=True)
        if not kept:
            advice = "Is the disk full, or read-only?" if os.geteuid() == 0 else "Run it with sudo."
            where = effective["paths"]["state"]
            text = f"The result could not be saved in {where}, so doctor will not know of this test. {advice}"
            click.echo(text, err=True)
    some = any(arrival.arrived for arrival in arrivals)
    if not all(arrival.arrived or (some and arrival.nobody) for arrival in arrivals):
        raise SystemExit(FAILED)


def _chosen(effective: "Mapping[str, Any]", wanted: tuple[str, ...]) -> "Sequence[str]":
    """The channels to test: those that a person names, else all."""
    local, channels = effective["notify"]["local"], effective["notify"]["channels"]
    names = list(dict.fromkeys([*local, *_of_task(effective), *channels]))
    if unknown := [name for name in wanted if name not in names]:
        message = f"there is no channel {unknown[0]!r}; configured: {', '.join(names) or 'none'}"
        raise CostguardError(message, "add [notify.channels.NAME] to the configuration (docs/notify.md)", USAGE)
    if not names:
        raise CostguardError(
            "no channel is configured, so messages go only to the journal", "see docs/notify.md", USAGE
        )
    return wanted or names


def _tried(effective: "Mapping[str, Any]", chosen: "Sequence[str]") -> tuple[list[Arrival], bool]:
    """What came of a test on each channel, and whether that could be kept for `costguard doctor`."""
    from costguard.notify import tested

    own = effective["notify"]["channels"]
    before = _addresses(own)
    closed = [name for name in chosen if name in own and _closed(own[name])]
    found = {arrival.channel: arrival for arrival in _send(effective, [name for name in chosen if name not in closed])}
    same = {name: urls for name, urls in _addresses(own).items() if urls == before.get(name)}
    proofs = {arrival.channel: arrival.arrived for arrival in found.values() if arrival.channel in own}
    kept = not proofs or tested.keep(effective["paths"]["state"], own, proofs, time.time(), same)
    return [found.get(name) or Arrival(name, arrived=False, failed=CLOSED) for name in chosen], kept


def _of_task(effective: "Mapping[str, Any]") -> list[str]:
    """The channel that a guard of this task has without being told; none outside of a task."""
    from costguard.cli.guarded import task_of

    try:
        return ["task"] if task_of(effective).get("tells") else []
    except CostguardError:
        return []


def _addresses(channels: "Mapping[str, Mapping[str, object]]") -> "dict[str, list[str]]":
    """The addresses that stand in files: doctor can read those again, and say whether they are still the ones tested."""
    from contextlib import suppress

    from costguard.notify import secret_urls
    from costguard.notify.message import DeliveryError

    found: dict[str, list[str]] = {}
    for name, channel in channels.items():
        reference = str(channel.get("urls", ""))
        if reference.startswith("file:"):
            with suppress(DeliveryError):  # which the test itself reports
                found[name] = secret_urls.read(reference, {})
    return found


def _closed(channel: "Mapping[str, object]") -> bool:
    """Whether this user may not read the file with the addresses."""
    from costguard.files import is_closed

    kind, _, path = str(channel.get("urls", "")).partition(":")
    return kind == "file" and os.geteuid() != 0 and is_closed(path)


def _send(effective: "Mapping[str, Any]", names: "Sequence[str]") -> list[Arrival]:
    if not names:
        return []
    from costguard.agent import task_words
    from costguard.notify.job import DeliveryResult, Draft, TellJob, access
    from costguard.process.child import EndedError, SilentError, first_answer
    from costguard.process.wire import MalformedError

    machine = os.uname().nodename
    title = f"Test: messages of costguard on {machine} arrive here"
    body = (
        f"Sent by `costguard notify test` (uid {os.geteuid()}). Nothing else happens.\n"
        "Before costguard acts, a warning comes this way, with the command that postpones it (`costguard hold`)."
    )
    draft = Draft(f"test-{os.getpid()}-{time.time():.0f}", "test", "critical", title=title, body=body)
    job = TellJob(
        draft,
        tuple(names),
        {**effective["notify"], **effective["host"], **task_words.for_channel(effective)},
        SECONDS,
        history=str(effective["paths"]["state"]),
        access=access(effective),
    )
    try:
        told = first_answer("notify", DeliveryResult, job, SECONDS + START_SECONDS)
    except SilentError:
        told = DeliveryResult(error=f"the worker did not answer within {SECONDS:.0f} s")
    except EndedError:
        told = DeliveryResult(error=ENDED)
    except MalformedError as error:
        told = DeliveryResult(error=f"internal error: malformed answer ({error}); please report it")
    return [_arrival(name, told) for name in names]


def _arrival(name: str, told: Any) -> Arrival:  # noqa: ANN401 - a DeliveryResult, whose module is loaded later
    failed = told.failed.get(
        name, "" if name in told.reached else told.error or "the worker did not report this channel"
    )
    return Arrival(name, name in told.reached and not failed, told.reached.get(name, ""), failed)


def _show(arrivals: "Sequence[Arrival]") -> None:
    from costguard.cli.render import clean

    width = max(len(arrival.channel) for arrival in arrivals)
    for arrival in arrivals:
        text = "; ".join(filter(None, (arrival.reached, arrival.failed)))
        click.echo(f"{arrival.mark:<6}  {arrival.channel:<{width}}  {clean(text)}")
