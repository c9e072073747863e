"""Watch what services answer, in `requests` and `smtplib`: apprise itself says only whether a message was taken.

Of an answer only its status is kept, and what `costguard.notify.answer` finds in it.
"""

import functools
import smtplib
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NewConnectionError

from costguard.clocks import boot_clock
from costguard.notify import answer
from costguard.notify.overtaken import Overtaken
from costguard.notify.retry_after import RetryAfter

if TYPE_CHECKING:
    from costguard.notify.remote import AddressResult

TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Answers of HTTP after which the same message may be taken."""

LEAST_SECONDS = 1.0
"""With less time left no further try is begun."""

GOODBYE_SECONDS = 1.0
"""How long to wait for the answer to QUIT: the message is taken by then, and its result waits for this."""

ANSWER_SLACK_SECONDS = 0.5
"""An answer is awaited until so long before the end, which leaves time to report what became of the message."""

UNHEARD = (
    requests.exceptions.ConnectTimeout,
    requests.exceptions.RetryError,
    requests.exceptions.InvalidURL,
    NewConnectionError,
    ssl.SSLCertVerificationError,
)
"""Errors of a request that its service never saw. A proxy's error is not among them: it may have happened on the way back."""

TUNNEL = "Tunnel connection failed"
"""With this answer a proxy has passed nothing on."""

TAKEN, REFUSING = 250, 400
"""SMTP: the reply to a message that was taken, and the lowest one that refuses it. Source: RFC 5321, 4.2."""

ASKING = frozenset(("GET", "HEAD", "OPTIONS"))
"""Methods that carry no message."""


class Exchange(threading.local):
    """What this thread's requests to one service came to.

    Attributes:
        host: the host of the last request.
        status: the HTTP status of its answer; None without one.
        code: the service's own error code in that answer.
        error: the exception that ended it.
        log: what apprise logged during this try.
        text: letters that are in the message, by which a request that carries it is known.
        sent: for each request of this try, whether it carried the text, and whether it was taken.
        declined: HTTP said that the request with the text was taken, but the body reports a failure.
        unanswered: a request may have arrived, and no answer came.
        answered_at: date of the last answer, in any of this thread's tries.
        not_before: moment on the boot clock until which the service asks to be left alone.
        retry_after: the same moment as other deliveries to this address have heard it.
        goodbye: the mail session is being closed.
        end: moment of the monotonic clock at which time is up.
        overtaken: ends every wait once a later message contradicts this one.
        on_try: called before each try.
        on_refusal: called, with its result, after a try that may be repeated.
    """

    host: str = ""
    status: int | None = None
    code: str = ""
    error: BaseException | None = None
    log: list[str]
    text: bytes
    sent: list[tuple[bool, bool]]
    declined: bool = False
    unanswered: bool = False
    answered_at: float | None = None
    not_before: float = 0.0
    retry_after: RetryAfter
    goodbye: bool = False
    end: float = float("inf")
    overtaken: Overtaken

    def __init__(self) -> None:
        self.overtaken = Overtaken()
        self.retry_after = RetryAfter()
        self.on_try: Callable[[], object] = lambda: None
        self.on_refusal: Callable[[AddressResult], object] = lambda _said: None
        self.begin("", float("inf"))

    def begin(self, text: str, end: float) -> None:
        """Begin a try that has until ``end`` (monotonic clock); ``text`` is in the message. A wait that the service asked for stays."""
        self.host, self.status, self.code, self.error, self.log = "", None, "", None, []
        self.text, self.sent, self.end, self.unanswered, self.declined = text.encode(), [], end, False, False

    @property
    def wait(self) -> float:
        """Seconds from now for which the service wants to be left alone."""
        self.not_before = max(self.not_before, self.retry_after.until)
        return max(0.0, self.not_before - boot_clock())

    @property
    def left(self) -> float:
        """Seconds left to wait for an answer."""
        return max(LEAST_SECONDS, self.end - ANSWER_SLACK_SECONDS - time.monotonic())

    @property
    def text_arrived(self) -> bool:
        """Whether the text arrived, and what failed was a later request without it: a picture that is sent by itself.

        A status of 200 alone proves nothing: a service may answer so to everything, and report a failure in the body.
        """
        taken = [number for number, (text, fine) in enumerate(self.sent) if text and fine]
        return bool(taken) and any(not text for text, _ in self.sent[taken[-1] + 1 :])

    def answered(self, response: requests.Response, *, text: bool = False) -> None:
        """Keep what matters of an answer; ``text``: the message was in the request."""
        said, now = answer.read(response.content), time.time()
        self.status, self.error, self.code, self.answered_at = response.status_code, None, said.code, now
        taken = 200 <= response.status_code < 300
        self.sent.append((text, taken and not said.declines))
        if text and taken:
            self.declined = said.declines
        if response.status_code in TRANSIENT:
            asked = answer.asked_to_wait(response.headers.get("Retry-After") or said.retry_after, now)
            self.not_before = max(self.not_before, boot_clock() + asked)
            self.retry_after.keep(self.not_before if asked else 0.0)


exchange = Exchange()


@functools.cache
def watch() -> None:
    """Patch `requests` and `smtplib` to record each answer in `exchange`, and to follow no redirect.

    Classes are patched, since plug-ins of apprise call functions of these modules.
    """
    send: Callable[..., requests.Response] = requests.Session.send

    def watched(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        _leave_alone()
        exchange.host = urlsplit(request.url or "").hostname or ""
        text = _carries(request, exchange.text)
        try:
            timeout = _capped(options.get("timeout"), exchange.left)
            response = send(session, request, **{**options, "allow_redirects": False, "timeout": timeout})
        except Exception as error:
            exchange.error = error
            exchange.sent.append((text, False))
            exchange.unanswered = exchange.unanswered or (request.method not in ASKING and _may_have_arrived(error))
            raise
        exchange.answered(response, text=text)
        return response

    requests.Session.send = watched
    for name in ("__init__", "starttls", "login", "sendmail"):
        setattr(smtplib.SMTP, name, _seen(getattr(smtplib.SMTP, name)))
    for name, around in (("getreply", _patient), ("data", _doubted), ("quit", _brief)):
        setattr(smtplib.SMTP, name, around(getattr(smtplib.SMTP, name)))


def _capped(timeout: object, left: float) -> tuple[float, float]:
    """The timeouts for connecting and for the answer: those of the plug-in, but no more than the seconds ``left``."""
    given = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    connect, read = (min(float(one), left) if isinstance(one, int | float) else left for one in given)
    return connect, read


def _may_have_arrived(error: BaseException) -> bool:
    """Whether a request that ended with this error may have arrived: always, unless no connection was made."""
    return not any(isinstance(one, UNHEARD) or TUNNEL in str(one) for one in causes(error))


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those inside it, the innermost last."""
    inner: BaseException | None = error
    while inner is not None:
        yield inner
        inner = inner.__cause__ or inner.__context__ or _carried(inner)


def _carried(error: BaseException) -> BaseException | None:
    """The error inside this one, if any: in some libraries ``reason`` is only a text."""
    inside = (getattr(error, "reason", None), *error.args)
    return next((one for one in inside if isinstance(one, BaseException)), None)


def _leave_alone() -> None:
    """Wait as long as the service asked for, since a plug-in may ask again at once.

    Raises RetryError if there is no time for that, or a later message contradicts this one meanwhile.
    """
    wait = exchange.wait
    if not wait:
        return
    if time.monotonic() + wait + LEAST_SECONDS > exchange.end:
        raise requests.exceptions.RetryError
    if exchange.overtaken.wait(wait):
        raise requests.exceptions.RetryError


def _patient(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a step that waits for a mail server, to give it all the time that is left: giving up sooner would send the mail twice."""

    @functools.wraps(method)
    def patient(session: smtplib.SMTP) -> Any:  # noqa: ANN401 - whatever that one returns
        if session.sock is not None and exchange.end != float("inf"):
            session.sock.settimeout(min(exchange.left, GOODBYE_SECONDS if exchange.goodbye else exchange.left))
        return method(session)

    return patient


def _brief(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the step that closes a mail session, to give it little time: nothing depends on it."""

    @functools.wraps(method)
    def brief(session: smtplib.SMTP) -> Any:  # noqa: ANN401 - whatever that one returns
        exchange.goodbye = True
        try:
            return method(session)
        finally:
            exchange.goodbye = False

    return brief


def _doubted(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the step that hands a mail over, to note when no answer says whether it was taken."""

    @functools.wraps(method)
    def doubted(session: smtplib.SMTP, *arguments: Any) -> Any:  # noqa: ANN401 - whatever that one returns
        try:
            found = method(session, *arguments)
        except smtplib.SMTPResponseException:
            raise
        except Exception:
            exchange.unanswered = True
            raise
        if isinstance(found, tuple) and found[0] != TAKEN and found[0] < REFUSING:  # a reply that was cut off
            exchange.unanswered = True
        return found

    return doubted


def _seen(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a step of a mail session, to keep its error; of several errors the first one is the cause."""

    @functools.wraps(method)
    def seen(session: smtplib.SMTP, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever that one returns
        try:
            found = method(session, *arguments, **options)
        except Exception as error:
            exchange.error = exchange.error or error
            if isinstance(error, smtplib.SMTPResponseException | smtplib.SMTPRecipientsRefused):
                exchange.answered_at = time.time()
            raise
        finally:
            exchange.host = str(getattr(session, "_host", "") or exchange.host)
        if isinstance(found, dict) and found:  # who was refused while others were not
            exchange.error = exchange.error or smtplib.SMTPRecipientsRefused(found)
        return found

    return seen


def _carries(request: requests.PreparedRequest, text: bytes) -> bool:
    """Whether a request contains this text in its address, body or headers."""
    parts = (request.url, request.body, *request.headers.values())
    return bool(text) and any(
        text in (part.encode() if isinstance(part, str) else part) for part in parts if isinstance(part, str | bytes)
    )
