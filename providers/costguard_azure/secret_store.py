"""Azure Key Vault: the newest version of one secret, read with the machine's managed identity.

Sources: REST reference "Get Secret" 7.4 (``GET https://VAULT.vault.azure.net/secrets/NAME``, the answer's ``value``); Azure
documentation "Azure Key Vault keys, secrets and certificates overview" (names, and the suffixes of the clouds), "Provide access to
Key Vault with Azure role-based access control" (the data action; a role can be assigned on one secret), "Key Vault error codes".
"""

import json
import re
import time
from typing import Any, NamedTuple

from costguard.cloud.api import CloudError, Identity, Permission, Site, secret_policy_command
from costguard_azure.resource import PUBLIC

_NAME = re.compile(r"(?P<vault>[A-Za-z][A-Za-z0-9-]{2,23})/(?P<secret>[A-Za-z0-9-]{1,127})")
_GET = Permission(
    "Microsoft.KeyVault/vaults/secrets/getSecret/action", "read this secret, for the addresses of a channel"
)
_SERVICE = "Azure Key Vault"
_GROUP = "/subscriptions/SUBSCRIPTION/resourceGroups/RESOURCE_GROUP"
_VM = f"{_GROUP}/providers/Microsoft.Compute/virtualMachines/VM"
VERSION = "7.4"
ROLE = "costguard secret"
TRIES = 3

SUFFIXES = {
    PUBLIC: "vault.azure.net",
    "AzureUSGovernmentCloud": "vault.usgovcloudapi.net",
    "AzureChinaCloud": "vault.azure.cn",
}
"""By ``azEnvironment`` of the metadata: where vaults are, and for whom a token must be."""


class _Where(NamedTuple):
    """An address, and the audience of its token."""

    url: str
    audience: str


class SecretStore:
    """See `costguard.cloud.api.SecretStore`."""

    form = "VAULT/SECRET, the names of a key vault and of a secret in it"

    def valid(self, name: str) -> bool:
        """By its form alone."""
        return bool(_NAME.fullmatch(name))

    def read(self, site: Site, identity: Identity, name: str, within: float) -> str:
        """Asked again after what passes."""
        from costguard.cloud.retry import bounded, until
        from costguard_azure import metadata

        end = time.monotonic() + within
        where = _where(site, identity, name)
        try:
            token, _ = bounded(lambda: metadata.token(site, where.audience), within)
            return until(end, lambda left: _text(_get(site, where.url, token, left)), tries=TRIES)
        except CloudError as error:
            raise _told(error, name) from None
        except TimeoutError:
            message = "the metadata service gave no token in time"
            raise CloudError(
                "unreachable", message, hint="check the metadata service, then run `costguard doctor`"
            ) from None

    def permissions(self, name: str) -> tuple[Permission, ...]:
        """One right, on the secret."""
        return (_GET,)

    def policy(self, name: str) -> str:
        """A custom role, as ``az role definition create`` takes it; the assignment limits it to one secret."""
        role = {
            "Name": ROLE,
            "IsCustom": True,
            "Description": "Lets a machine read the addresses of its channels. Assign it to the machine's own identity, with "
            "one secret as scope.",
            "Actions": [],
            "NotActions": [],
            "DataActions": [_GET.name],
            "NotDataActions": [],
            "AssignableScopes": [_GROUP],
        }
        return json.dumps(role, indent=2)

    def commands(self, name: str) -> str:
        """SUBSCRIPTION, RESOURCE_GROUP and VM are to be put in."""
        vault, _, secret = name.partition("/")
        scope = f"{_GROUP}/providers/Microsoft.KeyVault/vaults/{vault}/secrets/{secret}"
        principal = f'"$(az vm show --ids {_VM} --query identity.principalId --output tsv)"'
        assign = f"az role assignment create --role '{ROLE}' --scope {scope}"
        return "\n".join(
            (
                f"{secret_policy_command('azure', name)} > costguard-secret.json",
                "# put the SUBSCRIPTION and RESOURCE_GROUP of the vault into that file, too; the vault must use role-based access",
                "az role definition create --role-definition @costguard-secret.json",
                f"az vm identity assign --ids {_VM}",
                f"{assign} --assignee-principal-type ServicePrincipal --assignee-object-id {principal}",
            )
        )


def _where(site: Site, identity: Identity, name: str) -> _Where:
    """The vault of this cloud, or the configured address. Raises CloudError."""
    from costguard.cloud.http import for_tokens

    found = _NAME.fullmatch(name)
    environment = identity.details.get("environment") or PUBLIC
    suffix = {cloud.lower(): domain for cloud, domain in SUFFIXES.items()}.get(environment.lower())
    if found is None or suffix is None:
        text = f"costguard does not know the Azure cloud {environment}" if found else "this is not the name of a secret"
        raise CloudError("refused", text, hint=f"allowed: {SecretStore.form}; clouds: {', '.join(SUFFIXES)}")
    given = for_tokens(site.settings.get("store_endpoint"), "store_endpoint under [cloud.azure]")
    base = given or f"https://{found['vault'].lower()}.{suffix}"
    return _Where(f"{base}/secrets/{found['secret']}", f"https://{suffix}")


def _get(site: Site, url: str, token: str, within: float) -> Any:
    """One request. What came as JSON; raises CloudError, and ImportError without the SDK."""
    from costguard.cloud.retry import bounded
    from costguard_azure import errors, session

    try:
        return bounded(lambda: session.fetch(site, url, VERSION, token, within), within)
    except ImportError:
        raise
    except Exception as error:
        raise errors.translate(error, _SERVICE) from error


def _text(document: Any) -> str:
    """The value. Nothing of an answer stands in an error."""
    from costguard.cloud import errors

    value = document.get("value") if isinstance(document, dict) else None
    if not isinstance(value, str):
        raise errors.malformed("Azure", _SERVICE, sent="no")
    return value


def _told(error: CloudError, name: str) -> CloudError:
    """In words about a secret. What is no refusal of Azure is not quoted: nobody knows what stands in it."""
    from costguard.cloud import errors, hints

    vault, _, secret = name.partition("/")
    message, hint = str(error), error.hint
    if error.code in {errors.FOREIGN, errors.GARBAGE} or error.trouble == "internal":
        answers = (
            "a proxy or another service answers, not Azure"
            if error.code == errors.FOREIGN
            else f"it failed ({error.code})"
        )
        message = f"{_SERVICE} {vault}: {answers}"
    elif error.trouble == "gone":
        message = f"{_SERVICE} {vault}: it has no secret {secret}"
        hint = f"see `az keyvault secret list --vault-name {vault}`"
    elif "Firewall" in message or "NotAllowed" in message:
        hint = f"let this machine's network reach the vault: `az keyvault network-rule list --name {vault}`"
    elif error.trouble == "denied":
        hint = f"`costguard permissions azure --secret {name}` prints the role and the commands; a new role counts after some minutes"
    elif error.trouble == "refused":
        hint = f"see `az keyvault secret show --vault-name {vault} --name {secret}`"
    elif error.code == "no_connection":
        hint = f"check the name of the vault ({vault}); {hints.NETWORK}"
    return CloudError(error.trouble, message, code=error.code, hint=hint, retry_after=error.retry_after)
