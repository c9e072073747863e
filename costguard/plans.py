"""What all actions answer with: a plan with its findings, and the result of an attempt."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

Verdict = Literal["go", "consequences", "another", "failed", "refuse"]
"""``another``: this action does not fit the machine, the next one of `fallback` is planned. ``failed``: it could not be checked
for a technical reason, which may pass."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The gravest one last."""

VERDICT_WORDS = {
    "go": "may be carried out",
    "consequences": "may be carried out, with consequences",
    "another": "another action is needed",
    "refuse": "cannot be carried out",
    "failed": "could not be checked",
}
"""What people read."""

Status = Literal["accepted", "done", "pending", "failed", "refused", "unknown"]
"""See `Result`."""


class PlanFinding(NamedTuple):
    """One thing to know about a plan.

    ``code``: stable, for programs; every code stands in docs/actions.md. ``text``: what it means for the bill and the work,
    without secrets. ``hint``: the next command or setting; empty where there is nothing to do.
    """

    code: str
    text: str
    hint: str = ""


class Plan(NamedTuple):
    """The answer to *may I, and what follows*.

    ``action``: its name in the configuration. ``verdict``: the gravest of the findings'. ``findings``: the gravest first.
    ``ends_bill``, ``keeps_disks``: whether computing is no longer billed, and whether the network disks survive; None where
    it is not known. ``command``: what a guest action runs; it stays in the worker. ``receipt``: what names the machine when
    its cloud is asked later, see `costguard.cloud.receipt`. ``price``: the fields of `costguard.cloud.api.Price`, where the
    cloud was asked what this machine costs; else empty.
    """

    action: str
    verdict: Verdict
    findings: tuple[PlanFinding, ...] = ()
    ends_bill: bool | None = None
    keeps_disks: bool | None = None
    command: tuple[str, ...] = ()
    receipt: Mapping[str, str] = {}
    price: Mapping[str, object] = {}

    @property
    def may_act(self) -> bool:
        """Whether the plan can be executed."""
        return self.verdict in {"go", "consequences"}


class Result(NamedTuple):
    """What became of an attempt.

    ``status``: ``accepted`` (the request was taken), ``pending`` (seen stopping), ``done`` (closed), ``refused`` (a veto),
    ``failed`` (certainly nothing was accepted, for a technical reason) or ``unknown``. ``detail``: for people. ``proof``: the
    request id or the exit code, empty for none. ``receipt``: what `costguard stop --verify` needs to ask the cloud about it;
    a plug-in gives ``accepted`` alone, the moment of acceptance by the cloud's clock (RFC 3339).
    """

    status: Status
    detail: str
    proof: str = ""
    receipt: Mapping[str, str] = {}

    @property
    def as_json(self) -> dict[str, object]:
        """What is reported and recorded."""
        return {name: value for name, value in self._asdict().items() if name != "receipt" or value}


def without_promises(plan: Plan) -> Plan:
    """The plan; one that cannot be executed does not say that the bill ends, for nothing will end it."""
    if plan.may_act:
        return plan
    findings = tuple(finding for finding in plan.findings if finding.code != "bill_ends")
    return plan._replace(findings=findings, ends_bill=False if plan.ends_bill is False else None)


def worst(*verdicts: Verdict) -> Verdict:
    """The gravest of several verdicts."""
    return max(verdicts, key=VERDICTS.index, default="go")
