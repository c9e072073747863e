"""The only place where what the cloud or its SDK says becomes a `CloudError`.

For each error decide three things: its ``trouble`` (is it technical, or a veto?), ``sent`` (may the request have had its effect
all the same?) and a hint that names the next command. A proxy's page is neither a veto nor an acceptance.
"""

from costguard.cloud import errors, hints
from costguard.cloud.api import CloudError, Trouble

CLOUD = "Skeleton Cloud"
VETOES: dict[int, Trouble] = {401: "credentials", 403: "denied", 404: "gone"}


def garbage(doing: str) -> CloudError:
    """It reports success, but it is not this cloud."""
    return errors.malformed(CLOUD, doing)


def answered(doing: str, status: int, *, own: bool) -> CloudError:
    """An answer that says no; ``own``: in the cloud's own words."""
    message, code = f"{doing}: {CLOUD} answered {status}", str(status)
    if status == 429:
        return CloudError("throttled", message, code=code, hint=hints.AGAIN)
    if status >= 500:
        return CloudError("internal", message, code=code, hint=hints.AGAIN, sent="perhaps")
    if not own:
        return errors.foreign(CLOUD, doing, status, hints.proxy("cloud.example"))
    return CloudError(VETOES.get(status, "refused"), message, code=code, hint="run `costguard permissions skeleton`")
