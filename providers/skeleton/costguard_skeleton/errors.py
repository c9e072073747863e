"""The only place where what the cloud or its SDK says becomes a `CloudError`.

For each error decide three things: its ``trouble`` (is it technical, or a veto?), ``sent`` (may the request have had its effect
all the same?) and a hint that names the next command. A proxy's page is neither a veto nor an acceptance.
"""

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Trouble

VETOES: dict[int, Trouble] = {401: "credentials", 403: "denied", 404: "gone"}
_NETWORK = "look at the network of this machine, then run `costguard doctor`"


def unreachable(doing: str, error: Exception) -> CloudError:
    """It never left: nothing was accepted."""
    return CloudError("unreachable", f"{doing}: nobody answers ({error})", code="no_connection", hint=_NETWORK)


def silent(doing: str, error: Exception) -> CloudError:
    """It left, and nobody answered: perhaps it was accepted."""
    return CloudError(
        "unreachable", f"{doing}: no answer came ({error})", code="no_answer", hint=hints.AGAIN, sent="silent"
    )


def garbage(doing: str) -> CloudError:
    """Whoever says that all is well is not this cloud."""
    text = f"{doing}: what answers is not Skeleton Cloud"
    return CloudError("internal", text, code="garbage", hint=hints.WHO_ANSWERS, sent="silent")


def answered(doing: str, status: int, *, own: bool) -> CloudError:
    """An answer that says no; ``own``: in the cloud's own words."""
    said, code = f"{doing}: Skeleton Cloud answered {status}", str(status)
    if status == 429:
        return CloudError("throttled", said, code=code, hint=hints.AGAIN)
    if status >= 500:
        return CloudError("internal", said, code=code, hint=hints.AGAIN, sent="perhaps")
    if not own:
        text = f"{said}, and not in its own words"
        return CloudError("unreachable", text, code="foreign", hint=hints.proxy("cloud.example"), sent="hardly")
    return CloudError(VETOES.get(status, "refused"), said, code=code, hint="run `costguard permissions skeleton`")
