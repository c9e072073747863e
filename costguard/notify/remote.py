"""Channels beyond this machine, through apprise. The one module that imports it, in a worker that ends: it costs 33 MB.

apprise says only whether a service took a message. What the service answered is seen below it, at `requests`, and what
apprise logs is kept in memory and masked, since it may hold a token in full.
"""

import email.utils
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import requests
from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
from apprise.manager_plugins import NotificationManager

from costguard.masking import mask
from costguard.notify.message import Message

TYPES = {"info": NotifyType.INFO, "warning": NotifyType.WARNING, "critical": NotifyType.FAILURE}

PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Answers of HTTP after which the same message may be taken."""

PERMANENT = re.compile(r"\b5\d\d\b")
"""In what a mail server answered: a refusal that lasts. Source: RFC 5321, 4.2.1."""

PAUSE_SECONDS, PAUSE_LONGEST_SECONDS = 1.0, 8.0
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


class Sent(NamedTuple):
    """What became of a message at one address: the service, why it was not taken (empty: it was), and what to do."""

    service: str
    trouble: str = ""
    hint: str = ""


class _Exchange(threading.local):
    """What this thread's last request came to."""

    host: str = ""
    status: int | None = None
    retry_after: str = ""
    error: Exception | None = None
    log: list[str]

    def __init__(self) -> None:
        self.log = []

    def begin(self) -> None:
        self.host, self.status, self.retry_after, self.error, self.log = "", None, "", None, []


_exchange = _Exchange()


class _Memory(logging.Handler):
    """Keeps what apprise logs, for the thread that made it do so. It reaches no file and no terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        _exchange.log.append(record.getMessage())


def quiet_and_watched() -> None:
    """Prepare this process, once: libraries log to memory alone, and each answer of HTTP is seen; redirects are not followed.

    apprise calls module functions of `requests`, so its session class is the only place where an answer can be seen.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    apprise_log = logging.getLogger("apprise")
    apprise_log.handlers, apprise_log.propagate = [_Memory()], False
    apprise_log.setLevel(logging.DEBUG)
    send: Callable[..., requests.Response] = requests.Session.send

    def watched(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        _exchange.host = urlsplit(request.url or "").hostname or ""
        try:
            response = send(session, request, **{**options, "allow_redirects": False})
        except Exception as error:
            _exchange.error = error
            raise
        _exchange.status, _exchange.error = response.status_code, None
        _exchange.retry_after = response.headers.get("Retry-After", "")
        return response

    requests.Session.send = watched


def send(message: Message, url: str, end: float) -> Sent:
    """Hand a message over to one address, with further tries while they may help, until ``end`` of the monotonic clock.

    A service that takes a message and loses the answer gets it again: at least once, with the same id.
    """
    schema = url.partition(":")[0].lower()
    plugin = _plugin(url)
    if plugin is None:
        return _unusable(schema)
    service = str(plugin.service_name)
    kind, text = TYPES.get(message.level, NotifyType.INFO), message.body or message.title
    pause = PAUSE_SECONDS
    while True:
        _exchange.begin()
        plugin.socket_connect_timeout = plugin.socket_read_timeout = max(1.0, min(8.0, end - time.monotonic()))
        if plugin.notify(body=text, title=message.title, notify_type=kind, body_format=NotifyFormat.TEXT):
            return Sent(service)
        trouble, hint, passing = _trouble(url)
        wait = max(pause * random.uniform(0.5, 1.0), _asked_to_wait())  # noqa: S311 - jitter, no secret
        if not passing:
            return Sent(service, trouble, hint)
        if time.monotonic() + wait + LEAST_SECONDS > end:
            return Sent(service, trouble, hint or "it is tried again with the next message")
        time.sleep(wait)
        pause = min(2.0 * pause, PAUSE_LONGEST_SECONDS)


def _plugin(url: str) -> Any:  # noqa: ANN401 - apprise is not typed
    """What sends there; None where apprise cannot use the address."""
    return Apprise.instantiate(url, asset=AppriseAsset(secure_logging=True, async_mode=False))


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
    while (
        following := inner.__cause__ or inner.__context__ or getattr(inner, "reason", None) or _carried(inner)
    ) is not None:
        inner = following
    said = getattr(inner, "verify_message", None) or getattr(inner, "strerror", None)
    return str(said) if said else type(inner).__name__


def _carried(error: BaseException) -> BaseException | None:
    return next((one for one in error.args if isinstance(one, BaseException)), None)


def deliver(message: Message, urls: Mapping[str, list[str]], end: float) -> dict[str, list[Sent]]:
    """Send to every address of every channel at the same time; what had come of each by ``end``."""
    quiet_and_watched()
    NotificationManager().load_modules()  # here: by several threads at once it would be loaded as often
    found: dict[tuple[str, int], Sent] = {}
    threads = []
    for name, addresses in urls.items():
        for number, url in enumerate(addresses):
            thread = threading.Thread(target=_one, args=(found, (name, number), message, url, end), daemon=True)
            threads.append(thread)
            thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = Sent("?", "no answer in time", "it may still have arrived")
    taken = dict(found)
    return {
        name: [taken.get((name, number), late) for number in range(len(addresses))] for name, addresses in urls.items()
    }


def _one(found: dict[tuple[str, int], Sent], key: tuple[str, int], message: Message, url: str, end: float) -> None:
    try:
        found[key] = send(message, url, end)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the other addresses count
        found[key] = Sent("?", mask(f"{type(error).__name__}: {error}", [url])[:200])
