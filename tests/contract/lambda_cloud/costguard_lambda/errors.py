"""The only place where an answer of the API, or its absence, becomes a `CloudError`.

Source: Lambda Cloud API 1.8, "Error responses" (every error is an object with ``code``) and "Provider errors" (``provider/…``).
"""

from costguard.cloud import errors, hints
from costguard.cloud.api import CloudError

CLOUD = "Lambda Cloud"
_KEY = "write a key of the account into the file that cloud.lambda.api_key_file names, then run `costguard doctor`"
_BETWEEN = hints.proxy("cloud.lambda.ai")


def garbage(doing: str) -> CloudError:
    """It reports success, but in words that are not the API's."""
    return errors.malformed(CLOUD, doing)


def answered(doing: str, status: int, body: object, retry_after: float) -> CloudError:
    """An answer that says no."""
    found = body.get("error") if isinstance(body, dict) else None
    code = str(found.get("code") or "") if isinstance(found, dict) else ""
    said = f"{doing}: {CLOUD} answered {status} {code}: {str(found.get('message'))[:300] if isinstance(found, dict) else ''}"
    if status == 429:
        return CloudError("throttled", said, code=code, hint=hints.AGAIN, retry_after=retry_after)
    if status >= 500 or status == 408 or code.startswith("provider/"):
        return CloudError("internal", said, code=code, hint=hints.AGAIN, sent="perhaps", retry_after=retry_after)
    if not code:
        return errors.foreign(CLOUD, doing, status, _BETWEEN)
    if status == 401 or code == "global/invalid-api-key":
        return CloudError("credentials", said, code=code, hint=_KEY)
    if status == 403:
        return CloudError("denied", said, code=code, hint="look at the account: https://cloud.lambda.ai")
    if code == "global/object-does-not-exist":
        return CloudError("gone", said, code=code, hint="is the key of this machine's account?", sent="hardly")
    return CloudError(
        "refused", said, code=code, hint="look at the instance: https://cloud.lambda.ai/instances", sent="hardly"
    )
