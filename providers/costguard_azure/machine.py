"""One session about one machine, as the core sees it; and the look from elsewhere."""

import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence

from costguard.actions.base import Outcome, Plan
from costguard.actions.provider import CloudError, Identity, Site, Ticket, Verb
from costguard.actions.send import unsent
from costguard_azure import act, arm, mark, metadata, plan, resource
from costguard_azure.facts import Facts, gather, refresh
from costguard_azure.firmware import recognises
from costguard_azure.session import Session, Token, open_session, start

_CLI_DEADLINE = 30.0  # seconds for `az account get-access-token`, which starts slowly


class AzureMachine:
    """See `costguard.actions.provider.Machine`."""

    def __init__(self, site: Site, who: Identity) -> None:
        self._site = site
        self._identity = who
        self._session = open_session(site, who)
        interval = site.settings.get("confirm_interval")
        self._poll = float(interval) if isinstance(interval, int | float) else act.POLL

    def facts(self, verb: Verb) -> Facts:  # noqa: ARG002 - every action needs the same facts
        """See `costguard_azure.facts.gather`."""
        return gather(self._session, self._site, self._identity)

    def plan(self, verb: Verb, facts: Facts) -> Plan:
        """See `costguard_azure.plan.plan`."""
        limit = facts.vm.limit if facts.vm else None
        return plan.plan(verb, facts, self._site.settings)._replace(price=limit._asdict() if limit else {})

    def execute(self, verb: Verb, facts: Facts, ticket: Ticket) -> Outcome:
        """Act, when the plan allows it and the cloud has said that this is the machine.

        The facts may be as old as the countdown; what may be lost with the local disk is looked at again.
        """
        begun = time.monotonic()
        facts = refresh(facts, self._site, self._identity)
        while facts.vm is None and facts.young and time.monotonic() - begun + self._poll < ticket.deadline:
            time.sleep(self._poll)
            left = ticket.deadline - (time.monotonic() - begun)
            facts = gather(self._session, self._site, self._identity, left)
        settled = unsent(self.plan(verb, facts), act.seen(facts.vm.power) if facts.vm else None)
        if settled is not None:
            return settled
        left = ticket.deadline - (time.monotonic() - begun)
        return act.execute(self._session, verb, facts, ticket._replace(deadline=left))

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Outcome | None) -> Outcome:
        """See `costguard_azure.act.confirm`."""
        return act.confirm(self._session, verb, ticket, recorded)

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """See `costguard_azure.mark.mark`."""
        mark.mark(self._session, tags, within, dry=dry)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


def verify(site: Site, receipt: Mapping[str, str]) -> Outcome:
    """Ask from any machine what became of the one of a receipt. Raises ImportError and CloudError."""
    machine = resource.parse(receipt.get("resource_id", ""))
    if machine is None:
        raise CloudError(
            "refused", "the receipt names no Azure machine (resource_id)", hint="give it the whole receipt"
        )
    credential = None if recognises(site.dmi) or metadata.replaced(site) else CliCredential(site)
    session = start(site, machine, receipt, credential)
    try:
        return _became(session, receipt)
    finally:
        session.close()


def _became(session: Session, receipt: Mapping[str, str]) -> Outcome:
    """The state of the machine, if it is still the same one."""
    proof = receipt.get("request", "")
    doing = "asking what became of the machine"
    try:
        session.credential.get_token(session.scope)  # first and by itself: the command line starts slowly
        found = session.once(doing, lambda: arm.machine(session))
    except CloudError as error:
        if error.code in act.GONE:
            return Outcome("done", f"closed: the machine does not exist any more ({error.code})", proof)
        _with_command(error, receipt)
        raise
    body = found.get("properties") or {}
    vm_id, view = str(body.get("vmId") or "").lower(), arm.view(body.get("instanceView") or {})
    expected = receipt.get("vm_id", receipt.get("instance", "")).lower()
    if expected and vm_id != expected:
        return Outcome(
            "done", f"closed: the machine does not exist any more; another one ({vm_id}) has its name", proof
        )
    return act.shown(view, receipt.get("action", "stop"), Outcome("unknown", "not closed", proof))


def _with_command(error: CloudError, receipt: Mapping[str, str]) -> None:
    """Let the error name the command that answers the question by hand."""
    command = f"az vm get-instance-view --ids {receipt['resource_id']} --query instanceView.statuses"
    error.hint = f"{error.hint}; or ask with `{command}`" if error.hint else f"ask with `{command}`"


class CliCredential:
    """The token of whoever is logged in with ``az`` on this machine: the owner who asks from elsewhere."""

    def __init__(self, site: Site) -> None:
        self._environ = dict(site.environ)
        self._token: Token | None = None

    def get_token(self, *scopes: str, **_options: object) -> Token:
        """Ask the command line of Azure, once. Raises CloudError."""
        self._token = self._token or self._ask(scopes)
        return self._token

    def _ask(self, scopes: Sequence[str]) -> Token:
        hint = "install the Azure CLI and run `az login`, or ask from an Azure machine with an identity"
        az = shutil.which("az", path=self._environ.get("PATH"))
        if az is None:
            raise CloudError("credentials", "there is no `az` here, so Azure cannot be asked", code="az", hint=hint)
        command = [az, "account", "get-access-token", "--output", "json", "--scope", *scopes]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_CLI_DEADLINE, check=False, env=self._environ
            )
            found = json.loads(done.stdout)
            return Token(str(found["accessToken"]), int(found.get("expires_on") or time.time() + 600))
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            text = f"`az account get-access-token` gave no token: {type(error).__name__}"
            raise CloudError("credentials", text, code="az", hint=hint) from error

    def forget(self) -> None:
        """The command line may have a newer one."""
        self._token = None
