"""Explain why a service did not take a message: the reason, what to do, and whether a further try may help."""

import re
import smtplib
import ssl
from typing import NamedTuple

import requests

from costguard.masking import mask
from costguard.notify.exchange import TRANSIENT, TUNNEL, Exchange, causes

WORDS = {
    401: "it rejects these credentials",
    403: "it rejects this sender",
    404: "there is no such address",
    410: "this address was revoked",
    413: "the message is too large",
    429: "too many messages (rate limit)",
}

NEW_ADDRESS = "create a new address there and replace this one"
HINTS = {
    401: NEW_ADDRESS,
    403: "check what its token may do and whether something between here and there blocks it; else create a new address",
    404: NEW_ADDRESS,
    410: NEW_ADDRESS,
}

CERTIFICATE_HINT = "check the address and this machine's CA certificates"

CODES = {
    "channel_not_found": "correct the channel in the address, or invite the app into it",
    "not_in_channel": "invite the app into the channel",
    "is_archived": "name a channel that is in use",
    "missing_scope": "give the app the right to write (chat:write; files:write for pictures)",
    "invalid_auth": NEW_ADDRESS,
    "not_authed": NEW_ADDRESS,
    "account_inactive": NEW_ADDRESS,
    "token_revoked": NEW_ADDRESS,
    "token_expired": NEW_ADDRESS,
    "InvalidClientTokenId": "correct the access key in the address",
    "SignatureDoesNotMatch": "correct the secret key in the address",
    "ExpiredToken": "the keys in the address have expired: make new ones",
    "AuthorizationError": "give the key the right sns:Publish for this topic",
    "AccessDenied": "give the key the right sns:Publish for this topic",
    "NotFound": "correct region and topic in the address",
}
"""What to do, by a service's own name for what is wrong. Sources: the error lists of Slack's ``chat.postMessage`` and of SNS ``Publish``."""

LACKING = "missing_scope"
"""The one of these codes that may be about the picture alone."""

TRANSIENT_CODES = frozenset(
    ("ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "Throttling")
)

REFUSED = re.compile(r"\b5\d\d\b")
"""A permanent refusal by a mail server, in what a library logged. Source: RFC 5321, 4.2.1."""


_OF_A_PROXY = re.compile(rf"{TUNNEL}: (\d{{3}})\b")

MAY_HAVE_ARRIVED = "it may still have arrived"


class Failure(NamedTuple):
    """Why a message was not taken.

    Attributes:
        trouble: the reason, in words without a secret.
        hint: what to do about it; empty for nothing.
        transient: a later try of the same may succeed.
        blameless: the picture is not the reason.
    """

    trouble: str
    hint: str = ""
    transient: bool = False
    blameless: bool = False


def failure(exchange: Exchange, url: str) -> Failure:
    """Explain how the last try at ``url`` failed."""
    status, error, host = exchange.status, exchange.error, exchange.host
    code = "" if exchange.code in url else exchange.code  # a code that is also in the address may be a secret
    if exchange.unanswered:
        how = "did not answer in time" if error is None or _late(error) else "ended the connection without an answer"
        return Failure(f"{host} {how}", MAY_HAVE_ARRIVED, blameless=True)
    if isinstance(error, smtplib.SMTPException | OSError) and not isinstance(error, requests.RequestException):
        return _of_mail(error, host, url)
    if error is not None:
        return _of_network(error, host)
    if status is not None and not 200 <= status < 300:
        return _of_status(status, host, code)
    if code:
        return _of_code(code, host)
    if exchange.declined:
        return Failure(f"{host} did not take it, and says so in its answer (HTTP {status})")
    if status is not None:  # it answered the request; an answer that was cut off does not count
        return Failure(f"{host} answered without saying that it took the message", MAY_HAVE_ARRIVED, blameless=True)
    log = [mask(line, [url]) for line in exchange.log]
    telling = [line for line in log if "xception" in line] or log
    words = " ".join(telling[-1].split())[:200] if telling else "it gave no reason"
    return Failure(words, "", REFUSED.search(words) is None)


def _of_status(status: int, host: str, code: str) -> Failure:
    if 300 <= status < 400:
        return Failure(
            f"{host} redirects (HTTP {status}), which would lose the message", "use the final address", blameless=True
        )
    why = WORDS.get(status, "its server failed" if status >= 500 else "it rejects the message")
    named = f" ({code})" if code else ""
    # 403 may be about the picture: a filter that inspects messages answers so
    blameless = status in {401, 404, 410, 429, 503}
    hint = CODES.get(code, HINTS.get(status, ""))
    return Failure(f"HTTP {status} from {host}: {why}{named}", hint, status in TRANSIENT, blameless)


def _of_code(code: str, host: str) -> Failure:
    """HTTP said that the request was taken, but the body has an error code."""
    transient = code in TRANSIENT_CODES
    return Failure(
        f"{host} did not take it: {code}",
        CODES.get(code, ""),
        transient,
        transient or (code in CODES and code != LACKING),
    )


def _of_network(error: BaseException, host: str) -> Failure:
    if isinstance(error, requests.exceptions.SSLError):
        return Failure(f"{host} has an untrusted certificate ({_cause(error)})", CERTIFICATE_HINT, blameless=True)
    if isinstance(error, requests.exceptions.Timeout):
        return Failure(f"{host} did not answer in time", "", transient=True)
    return Failure(
        f"{host} could not be reached ({_cause(error)})", "check this machine's network and proxy", transient=True
    )


def _late(error: BaseException) -> bool:
    """Whether the cause was a timeout, which `smtplib` may report as a lost connection."""
    return any(isinstance(one, requests.exceptions.Timeout | TimeoutError) for one in causes(error))


def _of_mail(error: BaseException, host: str, url: str) -> Failure:
    """Explain a failed step of a mail session."""
    if isinstance(error, ssl.SSLError):
        return Failure(f"{host} has an untrusted certificate ({_cause(error)})", CERTIFICATE_HINT, blameless=True)
    if isinstance(error, smtplib.SMTPAuthenticationError):
        hint = "correct the user name and password in the address; many services require an app password"
        return Failure(
            f"{host} rejects the user name or password ({error.smtp_code})", hint, error.smtp_code < 500, blameless=True
        )
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, said = next(iter(error.recipients.values()), (0, b""))
        return _refused(host, "the recipient", code, said, url, picture=False)
    if isinstance(error, smtplib.SMTPSenderRefused):
        return _refused(host, "the sender", error.smtp_code, error.smtp_error, url, picture=error.smtp_code == 552)
    if isinstance(error, smtplib.SMTPResponseException):
        return _refused(host, "the message", error.smtp_code, error.smtp_error, url, picture=error.smtp_code >= 500)
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return _not_offered(error, host, url)
    if _late(error):
        return Failure(f"{host} did not answer in time", "", transient=True)
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return Failure(f"{host} ended the connection", "", transient=True)
    hint = "check host and port in the address, and this machine's network"
    return Failure(f"{host} could not be reached ({_cause(error)})", hint, transient=True, blameless=True)


def _not_offered(error: smtplib.SMTPNotSupportedError, host: str, url: str) -> Failure:
    """The server lacks an extension; many offer a login only after STARTTLS, which mailto:// does not begin."""
    if "AUTH" in str(error) and url.lower().startswith("mailto://"):
        return Failure(
            f"{host} takes no login without TLS", "write mailtos:// instead of mailto:// in the address", blameless=True
        )
    if "STARTTLS" in str(error):
        hint = "check the port; mode=ssl in the address is for a server that begins with TLS (port 465)"
        return Failure(f"{host} offers no STARTTLS", hint, blameless=True)
    hint = "check port and mode in the address, or leave user and password out"
    return Failure(f"{host} offers no login that costguard can use", hint, blameless=True)


def _refused(host: str, what: str, code: int, said: bytes | str, url: str, *, picture: bool) -> Failure:
    """Explain a refusal by a mail server, in its own words: none of these steps sends a secret that it could repeat."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    words = mask(" ".join(text.split()), [url])[:120]
    transient = code < 500
    asks = "asks to try again later" if transient else f"refuses {what}"
    hint = (
        ""
        if transient
        else {"the recipient": "correct to= in the address", "the sender": "correct from= in the address"}.get(what, "")
    )
    return Failure(f"{host} {asks} ({code} {words})".replace(" )", ")"), hint, transient, blameless=not picture)


def _cause(error: BaseException) -> str:
    """The innermost reason; the outer ones contain the address."""
    *_, inner = causes(error)
    if proxy := _OF_A_PROXY.search(str(inner)):
        return f"the proxy answers {proxy[1]}"
    said = getattr(inner, "verify_message", None) or getattr(inner, "strerror", None)
    return str(said) if said else type(inner).__name__
