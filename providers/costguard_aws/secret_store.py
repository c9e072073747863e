"""AWS Secrets Manager: one secret, read with the instance's own role.

Sources: Secrets Manager API reference "GetSecretValue" (a name or an ARN; ``SecretString``, or ``SecretBinary`` for bytes) and
its errors; user guide "Secret names" and "Authentication and access control" (an ARN ends in six characters that AWS chose, for
which a policy writes ``-??????``); "Secret encryption and decryption" (a key of one's own needs ``kms:Decrypt``).
"""

import json
import re
import time

from costguard.cloud import errors
from costguard.cloud.api import CloudError, Identity, Permission, Site, secret_policy_command

_NAME = re.compile(r"[A-Za-z0-9/_+=.@-]{1,512}")
_ARN = re.compile(r"arn:[a-z0-9-]+:secretsmanager:(?P<region>[a-z0-9-]+):\d{12}:secret:[A-Za-z0-9/_+=.@-]{1,519}")
_SUFFIX = re.compile(r".+-[A-Za-z0-9]{6}")
_GET = Permission("secretsmanager:GetSecretValue", "read this secret, for the addresses of a channel")
_KEY = Permission("kms:Decrypt", "only where the secret is encrypted with a key of your own; on that key", needed=False)
_SERVICE = "AWS Secrets Manager"


class SecretStore:
    """See `costguard.cloud.api.SecretStore`."""

    form = "the name or the ARN of a secret in AWS Secrets Manager"

    def valid(self, name: str) -> bool:
        """By its form alone."""
        return bool(_ARN.fullmatch(name) or _NAME.fullmatch(name))

    def read(self, site: Site, identity: Identity, name: str, within: float) -> str:
        """An ARN says in which region it is, a name is one of the instance's own."""
        from costguard_aws.session import Session

        end = time.monotonic() + within
        arn = _ARN.fullmatch(name)
        region = arn["region"] if arn else identity.region
        endpoint = site.settings.get("store_endpoint") or site.settings.get("api_endpoint") or ""
        own = site._replace(settings={**site.settings, "api_endpoint": endpoint})
        try:
            session = Session(own, region, "secretsmanager")
            try:
                answer = session.look("secretsmanager", "GetSecretValue", end, SecretId=name)
            finally:
                session.close()
        except CloudError as error:
            raise _told(error, name, region) from None
        text = answer.get("SecretString")
        if isinstance(text, str):
            return text
        if "SecretBinary" not in answer:
            raise errors.malformed("AWS", f"{_SERVICE} in {region}", trouble="unreachable", sent="no")
        message = f"{_SERVICE} in {region} holds this secret as bytes, not as text"
        raise CloudError("refused", message, code="SecretBinary", hint="store the addresses as plain text")

    def permissions(self, name: str) -> tuple[Permission, ...]:
        """One right, and a further one for a key of the owner's own."""
        return (_GET, _KEY)

    def policy(self, name: str) -> str:
        """The IAM policy as JSON, for this secret in every partition. The role that has it is the limit to this machine."""
        arn = name if _ARN.fullmatch(name) else f"arn:*:secretsmanager:*:*:secret:{name}"
        resource = arn if _ARN.fullmatch(name) and _SUFFIX.fullmatch(name) else f"{arn}-??????"
        statement = {"Sid": "CostguardReadsItsSecret", "Effect": "Allow", "Action": [_GET.name], "Resource": resource}
        return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)

    def commands(self, name: str) -> str:
        """ROLE and KEY are names to put in."""
        put = "aws iam put-role-policy --role-name ROLE --policy-name costguard-secret"
        key = {"Effect": "Allow", "Action": [_KEY.name], "Resource": "arn:*:kms:*:*:key/KEY"}
        decrypt = json.dumps({"Version": "2012-10-17", "Statement": [key]})
        return "\n".join(
            (
                f"{secret_policy_command('aws', name)} > costguard-secret.json",
                "# ROLE is the role of the instance; `costguard permissions aws` prints the commands that make one",
                f"{put} --policy-document file://costguard-secret.json",
                "# only where the secret is encrypted with a key of your own:",
                f"{put}-key --policy-document '{decrypt}'",
            )
        )


def _told(error: CloudError, name: str, region: str) -> CloudError:
    """In words about a secret. What is no refusal of AWS is not quoted: nobody knows what stands in it."""
    message = str(error).removeprefix("secretsmanager:GetSecretValue: ")
    hint = error.hint
    if error.trouble == "internal":
        message = f"it failed ({error.code})"
    elif error.code == "ResourceNotFoundException":
        message = "it has no such secret"
        hint = f"see `aws secretsmanager list-secrets --region {region}`; one of another region needs its whole ARN"
    elif error.code == "DecryptionFailure" or "KMS" in message:
        hint = f"grant kms:Decrypt on the key of the secret: `costguard permissions aws --secret {name}` prints how"
    elif error.trouble == "denied":
        hint = f"`costguard permissions aws --secret {name}` prints the policy and the commands"
    elif error.trouble == "refused":
        hint = f"see `aws secretsmanager describe-secret --region {region} --secret-id {name}`"
    wait = error.retry_after
    return CloudError(error.trouble, f"{_SERVICE} in {region}: {message}", code=error.code, hint=hint, retry_after=wait)
