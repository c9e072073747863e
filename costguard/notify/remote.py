"""Channels beyond this machine, through apprise. The one module that imports it, in a worker that ends: it costs 33 MB.

apprise says only whether a service took a message. What the service answered is seen below it, at `requests`, and what
apprise logs is kept in memory and masked, since it may hold a token in full.
"""

import email.utils
import functools
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import requests
from apprise import Apprise, AppriseAsset, AppriseAttachment, NotifyFormat, NotifyType
from apprise.attachment.memory import AttachMemory
from apprise.manager_plugins import NotificationManager

from costguard.masking import mask
from costguard.notify.markup import to_html, to_markdown
from costguard.notify.message import Message
from costguard.notify.terminal import clean
from costguard.report.picture import Picture

TYPES = {"info": NotifyType.INFO, "warning": NotifyType.WARNING, "critical": NotifyType.FAILURE}

PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Answers of HTTP after which the same message may be taken."""

PERMANENT = re.compile(r"\b5\d\d\b")
"""In what a mail server answered: a refusal that lasts. Source: RFC 5321, 4.2.1."""

PAUSE_SECONDS, PAUSE_LONGEST_SECONDS = 1.0, 8.0
CONNECT_SECONDS, TEXT_SECONDS = 8.0, 6.0
TOO_MANY = 429
HOPELESS = frozenset((301, 302, 303, 307, 308, 401, 404, 410, TOO_MANY))
"""Answers of HTTP that have nothing to do with a picture. One of 403 may: what looks into messages refuses it so."""

NAME = "costguard"
PICTURE = "gpu-load.png"

OWN_MARKS = frozenset(("Slack",))
"""Services whose marks are not those of Markdown: nothing that somebody wrote could be kept from being one."""

_LETTERS = re.compile(r"[A-Za-z0-9]{4,}")
"""What stands in a request as it stands in a title, whatever encodes it."""

LEAST_SECONDS = 1.0
"""With less time left no further try is begun."""

WORDS = {
    401: "it rejects these credentials",
    403: "it rejects these credentials",
    404: "there is no such address",
    410: "this address was revoked",
    413: "the message is too large",
    429: "too many messages (rate limit)",
}


class Plugin(Protocol):
    """What sends to one service, as apprise has it."""

    service_name: object
    notify_format: object
    attachment_support: bool
    socket_connect_timeout: float
    socket_read_timeout: float

    def notify(self, **message: object) -> object:
        """Send; true when the service took it."""


class Sent(NamedTuple):
    """What became of a message at one address: the service, why it was not taken (empty: it was), and what to do.

    ``note``: of a message that was taken, what did not come with it.
    """

    service: str
    trouble: str = ""
    hint: str = ""
    note: str = ""


class _Exchange(threading.local):
    """What this thread's last request came to; and of each one of a try, whether the text was in it, and whether it was taken."""

    host: str = ""
    status: int | None = None
    retry_after: str = ""
    error: Exception | None = None
    log: list[str]
    text: bytes
    requests: list[tuple[bool, bool]]

    def __init__(self) -> None:
        self.begin("")

    def begin(self, text: str) -> None:
        self.host, self.status, self.retry_after, self.error, self.log = "", None, "", None, []
        self.text, self.requests = text.encode(), []

    @property
    def text_arrived(self) -> bool:
        """Whether a request with the text was taken and another one, without it, came after it: a picture that is sent by itself.

        The answer alone proves nothing: a service may take every request with 200, and say in words that it refuses.
        """
        taken = [number for number, (text, fine) in enumerate(self.requests) if text and fine]
        return bool(taken) and any(not text for text, _ in self.requests[taken[-1] + 1 :])


_exchange = _Exchange()


class _Memory(logging.Handler):
    """Keeps what apprise logs, for the thread that made it do so. It reaches no file and no terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        _exchange.log.append(record.getMessage())


def quiet_and_watched() -> None:
    """Prepare this process, once (`_ready`): libraries log to memory alone, and each answer of HTTP is seen; redirects are not followed.

    apprise calls module functions of `requests`, so its session class is the only place where an answer can be seen.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    apprise_log = logging.getLogger("apprise")
    apprise_log.handlers, apprise_log.propagate = [_Memory()], False
    apprise_log.setLevel(logging.DEBUG)
    send: Callable[..., requests.Response] = requests.Session.send

    def watched(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        _exchange.host = urlsplit(request.url or "").hostname or ""
        text = _carries(request, _exchange.text)
        try:
            response = send(session, request, **{**options, "allow_redirects": False})
        except Exception as error:
            _exchange.error = error
            _exchange.requests.append((text, False))
            raise
        _exchange.requests.append((text, 200 <= response.status_code < 300))
        _exchange.status, _exchange.error = response.status_code, None
        _exchange.retry_after = response.headers.get("Retry-After", "")
        return response

    requests.Session.send = watched


_one_at_a_time = threading.Lock()


@functools.cache
def _ready() -> None:
    quiet_and_watched()
    NotificationManager().load_modules()  # by several threads at once it would be loaded as often


def _carries(request: requests.PreparedRequest, text: bytes) -> bool:
    """Whether a request has these letters anywhere in it."""
    parts = (request.url, request.body, *request.headers.values())
    return bool(text) and any(
        text in (part.encode() if isinstance(part, str) else part) for part in parts if isinstance(part, str | bytes)
    )


def send(message: Message, url: str, plugin: Plugin, end: float, picture: bytes = b"", note: str = "") -> Sent:
    """Hand a message over to one address, with further tries while they may help, until ``end`` of the monotonic clock.

    A service that takes a message and loses the answer gets it again: at least once, with the same id. A picture has one
    try: whatever is wrong with it, the text goes on without it.
    """
    service = str(plugin.service_name)
    pause = PAUSE_SECONDS
    while True:
        _exchange.begin(max(_LETTERS.findall(message.title), key=len, default=""))
        left = end - time.monotonic()
        plugin.socket_connect_timeout = max(1.0, min(CONNECT_SECONDS, left / 3.0 if picture else left))
        # who has taken it and answers late would get it twice; a text alone needs a little time, should its picture be refused
        plugin.socket_read_timeout = max(1.0, left - TEXT_SECONDS if picture else left)
        if _handed_over(message, plugin, picture):
            return Sent(service, note=note)
        trouble, hint, passing = _trouble(url)
        if picture and _exchange.status != TOO_MANY and (passing or _exchange.status not in HOPELESS):
            picture, note = b"", f"without its picture: {trouble}"
            if _exchange.text_arrived:
                return Sent(service, note=note)
            if not passing:
                continue
        wait = max(pause * random.uniform(0.5, 1.0), _asked_to_wait())  # noqa: S311 - jitter, no secret
        if not passing:
            return Sent(service, trouble, hint)
        if time.monotonic() + wait + LEAST_SECONDS > end:
            return Sent(service, trouble, hint or "it is tried again with the next message")
        time.sleep(wait)
        pause = min(2.0 * pause, PAUSE_LONGEST_SECONDS)


def _handed_over(message: Message, plugin: Plugin, picture: bytes) -> bool:
    """One try. With a picture an error of the library is one of that."""
    kind = TYPES.get(message.level, NotifyType.INFO)
    text, form = _dressed(message.body or message.title, plugin)
    attached = AppriseAttachment(AttachMemory(content=picture, name=PICTURE, mimetype="image/png")) if picture else None
    try:
        return bool(plugin.notify(body=text, title=message.title, notify_type=kind, body_format=form, attach=attached))
    except Exception as error:
        if not picture:
            raise
        _exchange.log.append(f"Exception {type(error).__name__}: {error}")
        return False


def _dressed(text: str, plugin: Plugin) -> tuple[str, NotifyFormat]:
    """The text in the form that the service shows best; HTML where that comes first, plain text where it takes anything."""
    given = plugin.notify_format
    forms: Sequence[object] = given if isinstance(given, tuple) else (given,)
    if forms[0] == NotifyFormat.HTML:
        return to_html(text), NotifyFormat.HTML
    if NotifyFormat.MARKDOWN in forms and NotifyFormat.HTML not in forms and plugin.service_name not in OWN_MARKS:
        return to_markdown(text), NotifyFormat.MARKDOWN
    return text, NotifyFormat.TEXT


def _plugin(url: str) -> Plugin | None:
    """What sends there; None where apprise cannot use the address."""
    asset = AppriseAsset(
        secure_logging=True,
        async_mode=False,
        app_id=NAME,
        app_desc=NAME,
        app_url="",
        image_url_mask="",
        image_url_logo="",
    )
    try:
        found: Plugin | None = Apprise.instantiate(url, asset=asset)
    except Exception:  # noqa: BLE001 - foreign code, and what it says may hold the address
        return None
    return found


NO_ADDRESS = Sent("?", "this line is no address", "write it as SERVICE://…, as docs/notify.md has them")
"""Nothing of such a line is repeated, not even its first word: it may be a bare token."""


IN_CLEAR = Sent("E-Mail", "its password would go over the network in clear", "write mailtos:// instead of mailto://")


def _bares_password(plugin: Plugin, url: str) -> bool:
    """Whether mail would be sent without TLS and with a password, which its owner has not asked for; to this machine it may."""
    bare = getattr(plugin, "secure_mode", "") == "insecure" and bool(getattr(plugin, "password", ""))
    here = str(getattr(plugin, "smtp_host", "")) in {"localhost", "127.0.0.1", "::1"}
    return bare and not here and "mode=insecure" not in url


def _unusable(schema: str) -> Sent:
    """Nothing of the address is repeated: whatever is wrong with it, it holds a secret."""
    manager = NotificationManager()
    if schema not in manager:
        return Sent(
            f"{schema[:20]}:" if schema.isalnum() else "?",
            "apprise has no such service",
            "see https://appriseit.com/services/",
        )
    plugin: Any = manager[schema]
    if not plugin.enabled:
        needed = plugin.requirements.get("packages_required") or ()
        packages = [needed] if isinstance(needed, str) else list(needed)
        hint = (
            f"in costguard's environment: pip install {' '.join(repr(name) for name in packages)}" if packages else ""
        )
        return Sent(str(plugin.service_name), "a library that it needs is not installed", hint)
    return Sent(
        str(plugin.service_name),
        "its address is incomplete or misspelt",
        "compare it with the page of this service at https://appriseit.com/services/",
    )


def _asked_to_wait() -> float:
    """Seconds, as the service said it (RFC 9110, Retry-After: a number or a date); 0 where it said nothing."""
    given = _exchange.retry_after.strip()
    if given.isdigit():
        return float(given[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _trouble(url: str) -> tuple[str, str, bool]:
    """Why the service did not take it, what to do, and whether another try may help."""
    status, error, host = _exchange.status, _exchange.error, _exchange.host
    if status is not None and not 200 <= status < 300:
        if 300 <= status < 400:
            return (
                f"{host} redirects (HTTP {status}), which would lose the message",
                "use the final address",
                False,
            )
        why = WORDS.get(status, "its server failed" if status >= 500 else "it rejects the message")
        hint = "create a new address there and replace this one" if status in {401, 403, 404, 410} else ""
        return f"HTTP {status} from {host}: {why}", hint, status in PASSING
    if isinstance(error, requests.exceptions.SSLError):
        return (
            f"{host} has an untrusted certificate ({_cause(error)})",
            "check the address and this machine's CA certificates",
            False,
        )
    if isinstance(error, requests.exceptions.Timeout):
        return f"{host} did not answer in time", "", True
    if error is not None:
        return f"{host} could not be reached ({_cause(error)})", "check this machine's network and proxy", True
    log = [mask(line, [url]) for line in _exchange.log]
    telling = [line for line in log if "xception" in line] or log
    words = " ".join(telling[-1].split())[:200] if telling else "it gave no reason"
    return words, "", PERMANENT.search(words) is None


def _cause(error: BaseException) -> str:
    """The innermost reason, without the address that stands in the outer ones."""
    inner: BaseException = error
    while (following := inner.__cause__ or inner.__context__ or _carried(inner)) is not None:
        inner = following
    said = getattr(inner, "verify_message", None) or getattr(inner, "strerror", None)
    return str(said) if said else type(inner).__name__


def _carried(error: BaseException) -> BaseException | None:
    """The error inside this one; what a library calls ``reason`` may be a word."""
    inside = (getattr(error, "reason", None), *error.args)
    return next((one for one in inside if isinstance(one, BaseException)), None)


_CALLS_EVERYBODY = re.compile(r"@(?=(?:everyone|here|channel|all|team)\b)|<(?=[!@#])", re.IGNORECASE)
"""What wakes a whole channel where a service finds it in a text."""


def harmless(text: str) -> str:
    """The text without what wakes everybody: the reason of a hold is anybody's, and a service takes it for the agent's."""
    return _CALLS_EVERYBODY.sub(lambda found: f"{found[0]}\u2060", clean(text))  # WORD JOINER: takes no room


def deliver(
    message: Message, urls: Mapping[str, list[str]], end: float, draw: Callable[[float], Picture] | None = None
) -> dict[str, list[Sent]]:
    """Send to every address of every channel at the same time; what had come of each by ``end``.

    ``draw`` gives the picture for those that take one; nobody else waits for it.
    """
    with _one_at_a_time:
        _ready()
    message = message._replace(title=harmless(message.title), body=harmless(message.body))
    found: dict[tuple[str, int], Sent] = {}
    late: dict[tuple[str, int], Sent] = {}
    threads: list[threading.Thread] = []
    later: list[tuple[tuple[str, int], str, Plugin]] = []

    def begin(key: tuple[str, int], url: str, plugin: Plugin | None, *more: object) -> None:
        thread = threading.Thread(target=_one, args=(found, key, message, url, plugin, end, *more), daemon=True)
        threads.append(thread)
        thread.start()

    for name, addresses in urls.items():
        for number, url in enumerate(addresses):
            plugin = _plugin(url)
            late[name, number] = _late(plugin)
            if draw is not None and plugin is not None and plugin.attachment_support:
                later.append(((name, number), url, plugin))
            else:
                begin((name, number), url, plugin)
    if draw is not None and later:
        picture = draw(end)
        note = f"without its picture: {picture.why}" if picture.why else ""
        for key, url, plugin in later:
            begin(key, url, plugin, picture.data, note)
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    taken = late | dict(found)
    return {name: [taken[name, number] for number in range(len(addresses))] for name, addresses in urls.items()}


def _late(plugin: Plugin | None) -> Sent:
    """What is said of an address that has not answered when the time is over; what stands in it may be a secret."""
    service = "?" if plugin is None else str(plugin.service_name)
    return Sent(service, "no answer in time", "it may still have arrived")


def _one(
    found: dict[tuple[str, int], Sent],
    key: tuple[str, int],
    message: Message,
    url: str,
    plugin: Plugin | None,
    end: float,
    picture: bytes = b"",
    note: str = "",
) -> None:
    try:
        if plugin is None:
            schema, separator, _ = url.partition("://")
            found[key] = _unusable(schema.lower()) if separator else NO_ADDRESS
        elif _bares_password(plugin, url):
            found[key] = IN_CLEAR._replace(service=str(plugin.service_name))
        else:
            found[key] = send(message, url, plugin, end, picture, note)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the other addresses count
        found[key] = Sent("?", mask(f"{type(error).__name__}: {error}", [url])[:200])
