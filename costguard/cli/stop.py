"""``costguard stop``: stop this machine now, as the agent would; or ask its cloud whether the bill has ended."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import click

from costguard.cli import options, reach
from costguard.cli.answer import emit, printable
from costguard.cli.examples import examples
from costguard.engine.state import PERSON
from costguard.errors import REFUSED, USAGE, CostguardError
from costguard.host.client import AgentBusyError, AgentUnreachableError
from costguard.host.identity import escape_hatch
from costguard.people import with_names
from costguard.plans import VERDICT_WORDS

ACTIONS = ("stop", "terminate", "hibernate", "shutdown", "command")
AGENT_SECONDS = 900.0
"""How long the agent may take to hand the request to the cloud: it plans again, and retries what certainly failed."""

SILENT_SECONDS = 20.0
"""How long the agent may be silent meanwhile: it may restart, or end with the machine."""

TITLES = {"failed": "failed and given up", "withdrawn": "cancelled, nothing was done"}
HINTS = {
    "failed": "the bill goes on: run `costguard stop` again, or stop the machine in the cloud's console",
    "withdrawn": "to stop it anyway, run `costguard stop` again",
}
POLL_SECONDS = 0.5
FATES = {"acted": "done", "cannot": "refused", "would": "refused", "failed": "failed", "withdrawn": "withdrawn"}
"""The outcome of a requested stop, as this command reports it."""

NOTHING_DONE = "nothing was done"


@click.command(
    epilog=examples(
        "sudo costguard stop", "sudo costguard stop --action terminate --yes", "costguard stop --verify receipt.json"
    )
)
@options.configuration
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--action", type=click.Choice(ACTIONS), help="Use this action instead of kill_action.")
@click.option(
    "--verify", metavar="RECEIPT", help="Check this receipt with the cloud (text, file, or - for standard input)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(arguments: options.Arguments, *, yes: bool, action: str | None, verify: str | None, as_json: bool) -> None:
    """Stop this machine now, whatever the GPUs do; or, with --verify, check from anywhere whether a bill has ended.

    It shows what would happen, asks, and prints a receipt. Exit code 0: the request was accepted, or the bill has
    ended; 3: refused, not ended, or a dry run. Use the same options as for `run`.
    """
    if verify is not None:
        from costguard.cli.verify import check

        check(verify, arguments, as_json=as_json)
        return
    from costguard.config import load_effective

    effective = load_effective(options.local_only(arguments), os.environ)
    report = _agent(options.named_folder(arguments))
    if report is not None:
        effective |= report["agent"].get("place", {})  # it knows where it runs, whatever the options say
    chosen = action or (report or {}).get("policy", effective["policy"])["kill_action"]
    ask = _Question(yes=yes, as_json=as_json)
    try:
        _check_allowed(effective, report, chosen)
        if report is not None and report["mode"] == "live" and chosen == report["policy"]["kill_action"]:
            fate = _through_agent(arguments, report, chosen, ask)
        else:
            fate = _directly(effective, report, chosen, ask)
    except CostguardError as error:
        if as_json and error.exit_code == REFUSED:
            emit("stop", {"accepted": False, **_refused(chosen, error)._asdict()})
        raise
    _print_fate(fate, as_json=as_json)


class StopFate(NamedTuple):
    """What became of a stop by hand, as ``--json`` prints it.

    ``status`` is that of `costguard.plans.Result`, or ``withdrawn``. ``plan``: verdict and findings, where this command made the plan.
    """

    action: str
    status: str
    detail: str
    hint: str = ""
    proof: str = ""
    receipt: Mapping[str, Any] = {}
    plan: Mapping[str, Any] = {}


class _PlanError(CostguardError):
    """The plan does not allow it, or is a dry run; ``plan`` has its verdict and findings."""

    def __init__(self, message: str, hint: str, plan: Mapping[str, Any]) -> None:
        super().__init__(message, hint, REFUSED)
        self.plan = plan


def _refused(action: str, error: CostguardError) -> StopFate:
    """What was not done, and why: *failed* where the plan could not be checked, so that a retry may help."""
    plan = error.plan if isinstance(error, _PlanError) else {}
    status = "failed" if plan.get("verdict") == "failed" else "refused"
    return StopFate(action, status, error.message, error.hint, plan=plan)


class _Question:
    """Shows what would happen and asks for confirmation; on standard error, so that standard output has only the answer."""

    def __init__(self, *, yes: bool, as_json: bool) -> None:
        self._yes = yes
        self._as_json = as_json

    def __call__(self, lines: Iterable[str], question: str) -> None:
        """Raises CostguardError when the answer is no, or there is no terminal."""
        if not (self._yes and self._as_json):
            for line in lines:
                click.echo(_one_line(line), err=True)
        if self._yes:
            return
        if not sys.stdin.isatty():
            raise CostguardError(f"no terminal to ask for confirmation; {NOTHING_DONE}", "confirm with --yes", USAGE)
        if not click.confirm(question, default=False, err=True):
            raise CostguardError(NOTHING_DONE, "", REFUSED)


def _agent(folder: str | None) -> dict[str, Any] | None:
    """The status of the agent, None where none runs. Raises CostguardError for one that does not answer."""
    try:
        return reach.status(folder)
    except (AgentUnreachableError, AgentBusyError):
        raise
    except CostguardError:
        return None


def _check_allowed(effective: Mapping[str, Any], report: Mapping[str, Any] | None, action: str) -> None:
    hold = (report or {}).get("admin_hold") or effective["policy"]["admin_hold"]
    if hold:
        raise CostguardError(f"the administrator holds this machine: {hold}", "ask who set admin.hold", REFUSED)
    if hatch := escape_hatch(effective["host"]["procfs"]):
        message = f"the kernel parameter {hatch} keeps this machine up"
        raise CostguardError(message, "boot without the parameter, or stop the machine in the cloud's console", REFUSED)
    if task := (report or {}).get("agent", {}).get("task"):
        end = task["advice"].get("end") or f"with {task['scheduler']}"
        raise CostguardError(
            f"this guard belongs to {task['words']} and stops no machine; {NOTHING_DONE}",
            f"to end it now: {end}",
            USAGE,
        )
    if action not in ACTIONS:
        message = f"kill_action is {action!r}, which does not stop this machine"
        raise CostguardError(message, "name another action: `costguard stop --action stop`", USAGE)
    if report is not None and report["phase"] in {"ACTING", "CONFIRMING"}:
        raise CostguardError("the agent is already carrying out an action", "see `costguard status`", REFUSED)


def _through_agent(arguments: options.Arguments, report: Mapping[str, Any], action: str, ask: _Question) -> StopFate:
    """Let the agent do it: one incident, with its history and messages."""
    folder = options.named_folder(arguments)
    plan = next((plan for plan in report["plans"] if plan["action"] == action), None)
    findings = [tuple(row) for row in plan["findings"]] if plan else []
    verdict = plan["verdict"] if plan else "not planned yet"
    ask([*_plan(action, verdict, findings), *_objections(report)], f"Carry out `{action}` on this machine now?")
    reach.change(folder, {"command": "stop"})
    return follow(lambda: reach.status(folder), action)


def follow(
    status: Callable[[], dict[str, Any]],
    action: str,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> StopFate:
    """Poll the agent until it reports the outcome; why it takes longer goes to standard error."""
    began = heard = clock()
    fate = StopFate(action, "unknown", "the agent has not reported the outcome; see `costguard status`")
    reported = ""
    while clock() - began < AGENT_SECONDS:
        pause(POLL_SECONDS)
        try:
            report = status()
        except CostguardError as error:
            if clock() - heard < SILENT_SECONDS:
                continue
            return fate._replace(detail=f"the agent no longer answers: {error.message}")
        heard = clock()
        wish, incident = report.get("wish") or {}, report["incident"]
        if incident is not None and incident["reason"] == PERSON:
            detail = incident["detail"] or str(report["sentence"])
            receipt = _receipt(incident["receipt"])
            fate = StopFate(incident["action"], "unknown", detail, proof=incident["proof"], receipt=receipt)
            if report["phase"] == "CONFIRMING":
                return fate._replace(status="accepted" if incident["proof"] else "unknown")
            if incident["detail"] and incident["detail"] != reported and not wish.get("fate"):
                reported = incident["detail"]
                click.echo(f"{incident['action']} failed and will be retried: {_one_line(reported)}", err=True)
        if wish.get("fate"):
            return fate._replace(status=FATES.get(wish["fate"], "unknown"), detail=wish["words"] or fate.detail)
        if incident is None or incident["reason"] != PERSON:  # not the agent that was asked
            return fate._replace(status="withdrawn", detail=str(report["sentence"]))
    return fate


def _directly(effective: Mapping[str, Any], report: Mapping[str, Any] | None, action: str, ask: _Question) -> StopFate:
    """Do it without the agent, in a worker of this command."""
    from costguard.cli.attempt import LocalAttempt, job

    if tag := _tag_override(effective):
        message = f"a tag keeps this machine up: {tag}; {NOTHING_DONE}"
        raise CostguardError(message, "remove the tag, or stop the machine in the cloud's console", REFUSED)
    with LocalAttempt(job(effective, action, f"uid {os.geteuid()}")) as attempt:
        plan = attempt.plan()
        known = {"verdict": plan.verdict, "findings": [finding._asdict() for finding in plan.findings]}
        lines = (*_plan(action, plan.verdict, plan.findings), *_objections(report))
        if not plan.may_act:
            texts = [finding.text for finding in plan.findings]
            message = "\n  ".join([f"{action} {VERDICT_WORDS[plan.verdict]}; {NOTHING_DONE}:", *texts])
            hint = next((finding.hint for finding in plan.findings if finding.hint), "see `costguard doctor`")
            raise _PlanError(message, hint, known)
        if effective["policy"]["mode"] != "live":
            for line in lines:
                click.echo(_one_line(line), err=True)
            raise _PlanError(f"DRY RUN: {NOTHING_DONE}", "to stop it: `costguard stop --live`", known)
        ask(lines, f"Carry out `{action}` on this machine now?")
        result = attempt.go()
        return StopFate(action, result.status, result.detail, proof=result.proof, receipt=result.receipt, plan=known)


def _tag_override(effective: Mapping[str, Any]) -> str:
    """The instance tag that keeps this machine up, read without an agent; empty when there is none, or the cloud is silent."""
    from costguard.cloud.access import CloudAccess
    from costguard.cloud.choose import choose
    from costguard.readers.cloud.tags import asks

    if effective["cloud"].get("tags") == "off":
        return ""
    try:
        chosen = choose(CloudAccess.of(effective))
        tags = chosen.provider.tags(chosen.site)
    except Exception:  # noqa: BLE001 - foreign code, and a service that may be away: the plan that follows says what is wrong
        return ""
    return next((str(reason) for reason, _left in asks(tags, time.time())), "")


def _plan(action: str, verdict: str, findings: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield f"{action}: {VERDICT_WORDS.get(verdict, verdict)}"
    for _code, text, hint in findings:
        yield f"  - {text}" + (f" (what to do: {hint})" if hint else "")


def _one_line(line: str) -> str:
    """What users and clouds wrote, for a terminal: one line, with the names of users."""
    return with_names(printable(line).replace("\n", " "))


def _objections(report: Mapping[str, Any] | None) -> Iterator[str]:
    """What speaks against a stop: it prevents nothing, but nobody should be surprised."""
    if report is None:
        yield "No agent is running, so it is unknown whether the GPUs are busy."
        return
    for gpu in report["gpus"]:
        if gpu["state"] != "quiet":
            yield f"  ! {gpu['label']} {'cannot be read' if gpu['state'] == 'unknown' else 'is BUSY'}: {gpu['words']}"
    for hold in report["holds"]:
        yield f"  ! held by {hold['owner']}" + (f": {hold['reason']}" if hold["reason"] else "")
    for veto in report["vetoes"]:
        yield f"  ! {veto['source']}: {veto['reason']}"


def _print_fate(fate: StopFate, *, as_json: bool) -> None:
    status = fate.status
    good = status in {"accepted", "done", "pending"}
    if as_json:
        emit("stop", {"accepted": good, **fate._asdict()})
        if not good:
            raise SystemExit(REFUSED)
        return
    if not good:
        message = f"{fate.action}: {TITLES.get(status, status)}: {fate.detail}"
        check = "check in the cloud's console whether the machine is still billed; see `costguard doctor`"
        raise CostguardError(message, HINTS.get(status, check), REFUSED)
    proof = f" (proof: {fate.proof})" if fate.proof else ""
    click.echo(_one_line(f"{status}: {fate.action}{proof}"))
    if fate.detail:
        click.echo(_one_line(f"  {fate.detail}"))
    if fate.receipt:
        click.echo(
            "Not confirmed yet. To check from another machine whether the bill has ended: `costguard stop --verify RECEIPT`. The receipt:"
        )
        click.echo(json.dumps(fate.receipt, separators=(",", ":")))


def _receipt(line: str) -> dict[str, Any]:
    found = json.loads(line) if line else {}
    return found if isinstance(found, dict) else {}
