"""Google Secret Manager: the newest version of one secret, read with the machine's own service account, over REST.

Sources: Secret Manager documentation "Access a secret version" (``projects/P/secrets/S/versions/latest:access``, the payload in
base64; the scope ``cloud-platform``), "Create a secret" (names: 255 letters, digits, ``-`` and ``_``), "Access control with
IAM" (``secretmanager.versions.access``, which can be granted on one secret); AIP-193 (the form of an error).
"""

import base64
import re
import time
from typing import Any

from costguard import __version__
from costguard.cloud.api import CloudError, Identity, Permission, Site, secret_policy_command

_PROJECT = r"(?:[a-z0-9.-]+:)?[a-z0-9-]{1,30}"
_NAME = re.compile(rf"(?:projects/(?P<project>{_PROJECT})/secrets/)?(?P<secret>[A-Za-z0-9_-]{{1,255}})")
_ACCESS = Permission("secretmanager.versions.access", "read this secret, for the addresses of a channel")
_SERVICE = "Google Secret Manager"
ROLE = "costguardSecret"
TRIES = 3

_ROLE = f"""\
# Google Cloud: the right to read a secret. `costguard permissions gcp --secret NAME` prints the commands that bind it to one secret.
title: costguard, one secret
description: Lets a machine read the addresses of its channels. Bind it to one secret, not to the project.
stage: GA
includedPermissions:
- {_ACCESS.name}
"""


class SecretStore:
    """See `costguard.cloud.api.SecretStore`."""

    form = "the name of a secret of this machine's project, or projects/PROJECT/secrets/SECRET"

    def valid(self, name: str) -> bool:
        """By its form alone."""
        return bool(_NAME.fullmatch(name))

    def read(self, site: Site, identity: Identity, name: str, within: float) -> str:
        """Asked again after what passes."""
        from costguard.cloud.http import for_tokens
        from costguard.cloud.retry import until
        from costguard_gcp.metadata import Metadata

        end = time.monotonic() + within
        project, secret = _parts(name, identity.details.get("project", ""))
        metadata = Metadata(site)
        token = metadata.token().text
        base = (
            for_tokens(site.settings.get("store_endpoint"), "store_endpoint under [cloud.gcp]")
            or f"https://secretmanager.{metadata.universe()}"
        )
        url = f"{base}/v1/projects/{project}/secrets/{secret}/versions/latest:access"
        try:
            return until(end, lambda left: _text(_access(url, token, left)), tries=TRIES)
        except CloudError as error:
            raise _told(error, name, project) from None

    def permissions(self, name: str) -> tuple[Permission, ...]:
        """One right, on the secret."""
        return (_ACCESS,)

    def policy(self, name: str) -> str:
        """A custom role as YAML; the binding limits it to one secret."""
        return _ROLE

    def commands(self, name: str) -> str:
        """PROJECT and EMAIL are to be put in."""
        project, secret = _parts(name, "PROJECT")
        who = f"--member=serviceAccount:EMAIL --role=projects/{project}/roles/{ROLE}"
        return "\n".join(
            (
                f"{secret_policy_command('gcp', name)} > costguard-secret.yaml",
                f"gcloud iam roles create {ROLE} --project={project} --file=costguard-secret.yaml",
                f"gcloud secrets add-iam-policy-binding {secret} --project={project} {who}",
                "# the machine also needs the access scope cloud-platform: `costguard permissions gcp` prints how to set it",
            )
        )


def _parts(name: str, own: str) -> tuple[str, str]:
    found = _NAME.fullmatch(name)
    if found is None:
        raise CloudError("refused", "this is not the name of a secret", hint=f"allowed: {SecretStore.form}")
    return found["project"] or own, found["secret"]


def _access(url: str, token: str, within: float) -> Any:
    """One request. What came as JSON; raises CloudError."""
    from costguard.cloud.retry import bounded
    from costguard_gcp import errors

    try:
        return bounded(lambda: _get(url, token, within), within)
    except Exception as error:  # whatever comes becomes a CloudError
        raise errors.translate(error, _SERVICE) from error


def _get(url: str, token: str, within: float) -> Any:
    """The JSON of an answer to one GET. Raises what the SDK would raise, which is not loaded: it has no client for this API."""
    import requests

    from costguard_gcp import errors

    headers = {"Authorization": f"Bearer {token}", "User-Agent": f"costguard/{__version__}"}
    with requests.Session() as session:
        session.auth = _as_it_is
        session.hooks["response"].append(errors.heed)
        answer = session.get(url, headers=headers, timeout=max(within, 0.1), allow_redirects=False)
        return errors.document(answer)


def _as_it_is(request: Any) -> Any:
    """Keep the header of the token: without an ``auth`` of its own, requests puts one of ``~/.netrc`` in its place."""
    return request


def _text(document: Any) -> str:
    """The payload as text. Nothing of an answer stands in an error."""
    from costguard.cloud import errors

    try:
        data = base64.b64decode(document["payload"]["data"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise errors.malformed("Google Cloud", _SERVICE, sent="no") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        message = f"{_SERVICE} holds this secret as bytes, not as text"
        raise CloudError("refused", message, hint="store the addresses as plain text") from None


def _told(error: CloudError, name: str, project: str) -> CloudError:
    """In words about a secret. What is no refusal of Google Cloud is not quoted: nobody knows what stands in it."""
    from costguard.cloud import errors, hints

    message, hint = str(error), error.hint
    where = f"{_SERVICE}, project {project}"
    if error.trouble == "internal":
        message = f"{where}: it failed ({error.code})"
    elif error.code == errors.FOREIGN:
        message = f"{where}: a proxy or another service answers, not Google Cloud"
    elif error.trouble == "gone":
        message = f"{where}: there is no such secret, or it has no version"
        hint = f"see `gcloud secrets versions list {name.rpartition('/')[2]} --project={project}`"
    elif error.code in {"SERVICE_DISABLED", "accessNotConfigured"}:
        message = f"{where}: the API is switched off"
        hint = f"run `gcloud services enable secretmanager.googleapis.com --project={project}`"
    elif error.trouble == "denied" and error.code != "scopes_missing":
        hint = f"`costguard permissions gcp --secret {name}` prints the role and the commands"
    elif error.trouble == "refused":
        hint = (
            error.hint
            if error.hint != hints.DOCTOR
            else f"see `gcloud secrets versions list {name.rpartition('/')[2]}`"
        )
    return CloudError(error.trouble, message, code=error.code, hint=hint, retry_after=error.retry_after)
