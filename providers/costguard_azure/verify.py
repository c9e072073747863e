"""Ask Azure from any machine what became of the machine of a receipt."""

import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site
from costguard.plans import Result
from costguard_azure import act, arm, metadata, resource
from costguard_azure.firmware import recognises
from costguard_azure.session import Session, Token, start

_CLI_SECONDS = 30.0  # seconds for `az account get-access-token`, which starts slowly


def verify(site: Site, receipt: Mapping[str, str]) -> Result:
    """Ask from any machine what became of the one of a receipt. Raises ImportError and CloudError."""
    machine = resource.parse(receipt.get("resource_id", ""))
    if machine is None:
        raise CloudError("refused", "the receipt names no machine (resource_id)", code="receipt", hint=hints.RECEIPT)
    credential = None if recognises(site.dmi) or metadata.replaced(site) else CliCredential(site)
    session = start(site, machine, receipt, credential)
    try:
        return _became(session, receipt)
    finally:
        session.close()


def _became(session: Session, receipt: Mapping[str, str]) -> Result:
    """The state of the machine, if it is still the same one."""
    proof = receipt.get("request", "")
    doing = "checking what happened to the machine"
    try:
        session.credential.get_token(session.scope)  # first and by itself: the command line starts slowly
        found = session.once(doing, lambda: arm.machine(session))
    except CloudError as error:
        if error.code in act.GONE:
            return Result("done", f"closed: Azure no longer knows this machine ({error.code})", proof)
        _with_command(error, receipt)
        raise
    body = found.get("properties") or {}
    vm_id, view = str(body.get("vmId") or "").lower(), arm.view(body.get("instanceView") or {})
    expected = receipt.get("vm_id", receipt.get("instance", "")).lower()
    if expected and vm_id != expected:
        return Result("done", f"closed: Azure no longer knows this machine; another one ({vm_id}) has its name", proof)
    return act.shown(view, receipt.get("action", "stop"), Result("unknown", "not closed", proof))


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
        hint = "install the Azure CLI and run `az login`, or ask from an Azure machine with a managed identity"
        az = shutil.which("az", path=self._environ.get("PATH"))
        if az is None:
            raise CloudError("credentials", "Azure cannot be asked: there is no `az` here", code="az", hint=hint)
        command = [az, "account", "get-access-token", "--output", "json", "--scope", *scopes]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_CLI_SECONDS, check=False, env=self._environ
            )
            found = json.loads(done.stdout)
            return Token(str(found["accessToken"]), int(found.get("expires_on") or time.time() + 600))
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            text = f"`az account get-access-token` gave no token: {type(error).__name__}"
            raise CloudError("credentials", text, code="az", hint=hint) from error

    def forget(self) -> None:
        """The command line may have a newer one."""
        self._token = None
