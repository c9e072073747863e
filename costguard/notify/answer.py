"""Parse the answer of a service: its error code, how long it asks to wait, and whether it refused the request.

Nothing else is kept: the answer may repeat what was sent, and with it a token.
"""

import email.utils
import json
import math
import re
from typing import Any, NamedTuple

from costguard.notify.retry_after import LONGEST_WAIT_SECONDS

_CODE = re.compile(r"[a-z]{2,}(?:_[a-z]+){0,6}|[A-Z][A-Za-z]{2,48}")
"""The form of error codes: ``channel_not_found``, ``InvalidClientTokenId``. It allows no digits, so that a token is not taken for one."""

_XML_CODE = re.compile(r"<Code>([A-Za-z]{3,48})</Code>")
_ANSWER_BYTES = 16 << 10

_SUCCESS = ("ok", "success")
_ERRORS = ("error", "errors")
_NUMBERS = ("errcode", "error_code", "errorCode")
_WORDS = ("status", "result")
_FAILED = frozenset(("error", "fail", "failed", "failure"))
_NOTHING = frozenset(("", "0", "false", "no", "none", "null", "ok"))
_HTTP_ERRORS = range(400, 600)


class ServiceAnswer(NamedTuple):
    """What matters in an answer.

    Attributes:
        code: the service's own error code; empty for none.
        retry_after: whole seconds to wait, if the body (not the header *Retry-After*) names them; else empty.
        declines: the body says that the request failed, whatever the HTTP status.
    """

    code: str = ""
    retry_after: str = ""
    declines: bool = False


def read(content: bytes) -> ServiceAnswer:
    """Parse the body of an answer; a form that is not known gives an empty result."""
    text = content[:_ANSWER_BYTES]
    if text.lstrip()[:1] == b"<":
        found = _XML_CODE.search(text.decode("utf-8", "replace"))
        return ServiceAnswer(found[1] if found else "")
    try:
        fields = json.loads(text)
    except ValueError:
        return ServiceAnswer()
    if not isinstance(fields, dict):
        return ServiceAnswer()
    given = fields.get("error")
    code = given if isinstance(given, str) and _CODE.fullmatch(given) else ""
    return ServiceAnswer(code, _wait_in(fields), _declines(fields))


def _declines(fields: dict[str, Any]) -> bool:
    """Whether the body reports a failure: many services answer with HTTP 200 even then.

    Sources: Telegram Bot API, Making requests (``ok``); Rocket.Chat and others (``success``); WeCom and DingTalk, group robots
    (``errcode``); Zulip (``result``); JSend and others (``status``); Bark (``code``, as of HTTP).
    """
    said = [fields[name] for name in _SUCCESS if isinstance(fields.get(name), bool)]
    if said:
        return False in said
    return (
        any(_reports_error(fields.get(name)) for name in _ERRORS)
        or any(str(fields.get(name) or "").strip().lower() not in _NOTHING for name in _NUMBERS)
        or any(str(fields.get(name)).lower() in _FAILED for name in _WORDS)
        or fields.get("code") in _HTTP_ERRORS
    )


def _reports_error(error: object) -> bool:
    """Whether the value of an error field reports an error: a text other than *none*, a list that is not empty, or true."""
    return error.strip().lower() not in _NOTHING if isinstance(error, str) else bool(error)


def _wait_in(fields: dict[str, Any]) -> str:
    """Seconds to wait that the body names. Sources: Telegram Bot API, ResponseParameters; Discord, Rate Limits."""
    inner = fields.get("parameters")
    asked = (inner if isinstance(inner, dict) else fields).get("retry_after")
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0.0:
        return ""
    return str(math.ceil(min(asked, LONGEST_WAIT_SECONDS)))


def asked_to_wait(given: str, now: float) -> float:
    """Seconds to wait, from the header *Retry-After* (RFC 9110: a number or a date); 0 without one. ``now`` is a date."""
    given = given.strip()
    if given.isascii() and given.isdigit():
        return min(LONGEST_WAIT_SECONDS, float(given[:9]))
    try:
        return min(LONGEST_WAIT_SECONDS, max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - now))
    except (ValueError, TypeError, OverflowError):
        return 0.0
