"""`stop`, `terminate`, `hibernate`: the cloud ends this machine, through the plug-in that knows it.

The core names no cloud. Whatever a plug-in raises becomes a finding here, so that people read why and what to do.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from costguard import record_address
from costguard.actions.base import Context, DryRunError
from costguard.cloud import container, managed, receipt
from costguard.cloud.api import CloudError, Machine, Ticket, Trouble, Verb, capabilities
from costguard.cloud.choose import NobodyError, choose
from costguard.cloud.identify import LOAD_SECONDS, OPEN_SECONDS, identified, step
from costguard.engine.state import PERSON
from costguard.masking import mask
from costguard.plans import Plan, PlanFinding, Result, Status, Verdict, without_promises, worst

CODES: Mapping[Trouble, str] = {
    "unreachable": "unreachable",
    "throttled": "throttled",
    "internal": "cloud_error",
    "credentials": "credentials_missing",
    "clock": "clock_skew",
    "denied": "not_permitted",
    "refused": "cloud_refused",
    "gone": "not_this_machine",
    "changed": "not_this_machine",
}
"""The finding for each kind of trouble, where the plug-in's own word is none of `OWN_CODES`."""

REQUEST_SECONDS = 15.0
"""Seconds for a request, its own repeats included. If nothing was accepted by then, the engine decides again, on fresh readings."""

OWN_CODES = frozenset(("credentials_expired", "scopes_missing"))
"""Words of a plug-in that say more than the kind of trouble."""


class CloudSession(NamedTuple):
    """The SDK is loaded, the identity is sure, and the facts of one verb are gathered."""

    name: str
    machine: Machine
    gathered: Any  # each plug-in has facts of its own kind, which only it reads
    receipt: Mapping[str, str]


class CloudFacts(NamedTuple):
    """What the plan needs: a session with the cloud, or why there is none."""

    action: Verb
    container: str | None
    stands_for_host: bool
    live: bool
    has_sink: bool
    session: CloudSession | None
    trouble: tuple[Verdict, PlanFinding] | None = None
    daemons: tuple[tuple[Verdict, PlanFinding], ...] = ()


class CloudAction:
    """One verb of the cloud. It keeps the session of the last `facts` warm for `execute`."""

    def __init__(self, name: Verb) -> None:
        self.name: Verb = name
        self._session: CloudSession | None = None

    def facts(self, context: Context) -> CloudFacts:
        """Find the plug-in, identify this machine, log in, and gather what the plan needs."""
        self._session = None
        facts = CloudFacts(
            action=self.name,
            container=container.evidence(context.host.procfs, os.environ),
            stands_for_host=context.host.stands_for_host,
            live=context.live,
            has_sink=record_address.outlives(context.sink),
            session=None,
        )
        if container.refusals(facts.container, stands_for_host=facts.stands_for_host):
            return facts  # the host's cloud is not asked on behalf of a guest
        facts = facts._replace(daemons=tuple(managed.by_daemon(context.host.procfs, context.cloud)))
        try:
            self._session = self._open(context)
        except NobodyError as error:
            return facts._replace(trouble=(error.verdict, error.finding))
        except CloudError as error:
            return facts._replace(trouble=explain(error))
        return facts._replace(session=self._session)

    def plan(self, facts: CloudFacts) -> Plan:
        """What the plug-in says, and the core's own refusals."""
        found: list[tuple[Verdict, PlanFinding]] = [
            ("refuse", finding)
            for finding in container.refusals(facts.container, stands_for_host=facts.stands_for_host)
        ]
        if facts.trouble is not None:
            found.append(facts.trouble)
        if facts.session is None:
            found += facts.daemons
            verdicts = [verdict for verdict, _ in found]
            return Plan(facts.action, worst(*verdicts), tuple(finding for _, finding in found))
        if facts.action == "terminate" and not facts.has_sink:
            found.append(_no_sink(live=facts.live))
        made = facts.session.machine.plan(facts.action, facts.session.gathered)
        if all(finding.code != managed.CODE for finding in made.findings):  # told once
            found += facts.daemons
        whole = made._replace(
            action=facts.action,
            verdict=worst(made.verdict, *(verdict for verdict, _ in found)),
            findings=(
                *(finding for _, finding in found),
                *(PlanFinding(str(code), mask(str(text)), str(hint or "")) for code, text, hint in made.findings),
            ),
            receipt=facts.session.receipt,
        )
        return without_promises(whole)

    def execute(self, plan: Plan, context: Context) -> Result:
        """Send the request. The plug-in repeats the same one while that can help, within the deadline."""
        if not context.live:
            raise DryRunError("dry run")
        session = self._session
        if session is None or not plan.may_act:
            return Result("failed", "no session with the cloud is open: nothing was sent")
        # a person's wish needs no readings
        within = context.deadline if context.reason == PERSON else min(context.deadline, REQUEST_SECONDS)
        ticket = Ticket(context.incident, context.attempt, within)
        try:
            outcome = session.machine.execute(self.name, session.gathered, ticket)
        except CloudError as error:
            message = f"{mask(error.told)}; {error.hint}" if error.hint else mask(error.told)
            return Result("failed" if error.technical else "refused", message)
        answer = _fit_for_wire(outcome)
        if answer.status not in {"accepted", "done", "pending", "unknown"}:
            return answer
        accepted_at = str(outcome.receipt.get("accepted", ""))
        return answer._replace(receipt=receipt.accepted(session.receipt, answer.proof, accepted_at))

    def confirm(self, context: Context, recorded: Result | None) -> Result:
        """What the cloud says of this machine now; what was recorded, where it says nothing."""
        end = time.monotonic() + LOAD_SECONDS + context.deadline
        try:
            session = self._open(context, gather=False)
            ticket = Ticket(context.incident, context.attempt, min(context.deadline, end - time.monotonic()))
            outcome = session.machine.confirm(self.name, ticket, recorded)
        except NobodyError as error:
            return _unasked(recorded, str(error))
        except CloudError as error:
            return _unasked(recorded, mask(error.told))
        return _fit_for_wire(outcome)._replace(receipt=recorded.receipt if recorded else {})

    def _open(self, context: Context, *, gather: bool = True) -> CloudSession:
        """Raises NobodyError or CloudError; whatever else a plug-in raises becomes one of these."""
        chosen = choose(context.access)
        if context.cloud.get("metadata") == "never":
            text = (
                'cloud.metadata = "never" hides which machine this is, so the cloud cannot end it: the bill would go on'
            )
            hint = 'set cloud.metadata = "auto", or use another kill_action'
            raise NobodyError(PlanFinding("facts_missing", text, hint))
        can = capabilities(chosen.provider).verbs
        if self.name not in can:
            raise NobodyError(_cannot(self.name, chosen.provider.name, can), "another")
        end = time.monotonic() + min(context.deadline, OPEN_SECONDS)
        with identified(chosen, end) as who:
            began = time.monotonic()
            machine = step(chosen, "open", lambda: chosen.provider.open(chosen.site, who), end + LOAD_SECONDS)
            # a library that loads slowly leaves the facts their time
            end += min(LOAD_SECONDS, time.monotonic() - began)
            gathered = step(chosen, "facts", lambda: machine.facts(self.name), end) if gather else None
        return CloudSession(
            chosen.name,
            machine,
            gathered,
            receipt.begin(chosen.name, who, self.name, context.incident, context.attempt),
        )


def explain(error: CloudError) -> tuple[Verdict, PlanFinding]:
    """A cloud that cannot be asked, as a finding: what is technical may pass, the rest is a veto."""
    tail = "until then the cloud cannot end this machine, and the bill goes on"
    code = error.code if error.code in OWN_CODES else CODES[error.trouble]
    finding = PlanFinding(code, f"{mask(error.told)}; {tail}", error.hint or "see `costguard doctor`")
    return ("failed" if error.technical else "refuse"), finding


def _fit_for_wire(result: Result) -> Result:
    """A plug-in's answer as text: a proof that is a number must not turn an accepted request into a malformed line."""
    status = result.status if result.status in get_args(Status) else "unknown"
    return Result(status, mask(str(result.detail or "")), str(result.proof or ""))


def _unasked(recorded: Result | None, why: str) -> Result:
    """The cloud could not be asked: an acceptance alone does not say that anything happened."""
    if recorded is None:
        return Result("unknown", f"no record of this attempt, and the cloud cannot be asked: {why}")
    if recorded.status == "accepted":
        detail = f"accepted; the outcome is unknown, because the cloud cannot be asked: {why}"
        return Result("unknown", detail, recorded.proof, recorded.receipt)
    return recorded


def _cannot(verb: Verb, cloud: str, can: Sequence[Verb]) -> PlanFinding:
    text = f"{cloud} cannot {verb} a machine: the bill would go on"
    return PlanFinding(
        "no_such_action", text, f"set kill_action to what it can do ({', '.join(can)}), or to a guest action"
    )


def _no_sink(*, live: bool) -> tuple[Verdict, PlanFinding]:
    text = "a termination deletes this machine's history and tags, and no sink keeps a record"
    hint = 'set `url` or `syslog` under [sink], or kill_action = "stop"'
    if live:
        return "refuse", PlanFinding("no_sink", f"{text}: it is not terminated, and the bill would go on", hint)
    return "consequences", PlanFinding("no_sink", f"{text}; in live mode this is refused", hint)
