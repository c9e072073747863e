"""Channels beyond this machine, through apprise. The one module that imports it, in a worker that ends: it costs 33 MB.

apprise says only whether a service took a message. What the service answered is seen below it, at `requests`, and what
apprise logs is kept in memory and masked, since it may hold a token in full.
"""

import functools
import html
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from apprise import Apprise, AppriseAsset, AppriseAttachment, NotifyFormat, NotifyType
from apprise.attachment.memory import AttachMemory
from apprise.manager_plugins import NotificationManager

from costguard.masking import mask
from costguard.notify.delivery_record import DeliveryRecord, Taken
from costguard.notify.exchange import LEAST_SECONDS, exchange, watch
from costguard.notify.failure import MAY_HAVE_ARRIVED, failure
from costguard.notify.fitting import fitted
from costguard.notify.job import Draft
from costguard.notify.markup import to_html, to_markdown
from costguard.notify.message import Message
from costguard.notify.overtaken import OVERTAKEN, Overtaken
from costguard.notify.retry_after import RetryAfter
from costguard.notify.terminal import clean
from costguard.report.picture import Picture

TYPES = {"info": NotifyType.INFO, "warning": NotifyType.WARNING, "critical": NotifyType.FAILURE}

PAUSE_SECONDS, PAUSE_LONGEST_SECONDS = 1.0, 8.0
CONNECT_SECONDS = 8.0

NAME = "costguard"
PICTURE = "gpu-load.png"

PAGER = "Pager Duty"
"""The service that names the source of an alert apart from its text."""

SLACK = "Slack"

TITLE_MARKS = 40
"""Characters reserved for what a service adds around a title that it shows as part of the text."""

TEAMS = "Power Automate / Workflows (for MSTeams)"

TITLE_IN_MARKDOWN = frozenset(("Discord", TEAMS))
"""Services that take the title apart from the text, and interpret Markdown in it."""

LONGEST = {TEAMS: 20_000}
"""Longest message of a service, in characters, where the limit in apprise is too high: a card of Teams has 28 kB."""

OWN_MARKS = frozenset((SLACK,))
"""Services whose markup is not Markdown: they get plain text, since text that people wrote could not be escaped."""

_LETTERS = re.compile(r"[A-Za-z0-9]{4,}")
"""Letters that look the same in a title and in a request, whatever encoding it has."""


class Plugin(Protocol):
    """The parts of apprise's plug-in for one service that are used here."""

    service_name: object
    body_maxlen: int
    title_maxlen: int
    notify_format: object
    attachment_support: bool
    socket_connect_timeout: float
    socket_read_timeout: float

    def notify(self, **message: object) -> object:
        """Send; true when the service took it."""


class AddressResult(NamedTuple):
    """What became of a message at one address.

    Attributes:
        service: name of the service.
        trouble: why it did not take the message; empty if it did.
        hint: what to do about that.
        note: what is missing in a message that was taken (the picture).
        until: moment on the boot clock until which the service asks to be left alone; 0 for none.
        at: date of its answer; None without one.
    """

    service: str
    trouble: str = ""
    hint: str = ""
    note: str = ""
    until: float = 0.0
    at: float | None = None

    @property
    def why(self) -> str:
        """The service, why it did not take the message, and what to do."""
        return f"{self.service}: {self.trouble}" + (f" ({self.hint})" if self.hint else "")


class _Memory(logging.Handler):
    """Keep what apprise logs in memory, for the thread that called it."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING or "xception" in text:  # other lines give durations, not reasons
            exchange.log.append(text)


def quiet() -> None:
    """Let libraries log to memory alone, in this whole process."""
    logging.getLogger().addHandler(logging.NullHandler())
    apprise_log = logging.getLogger("apprise")
    apprise_log.handlers, apprise_log.propagate = [_Memory()], False
    apprise_log.setLevel(logging.DEBUG)


_one_at_a_time = threading.Lock()


def load() -> None:
    """Load the library, which takes seconds of a processor the first time. Any thread may call it."""
    with _one_at_a_time:
        _ready()


@functools.cache
def _ready() -> None:
    quiet()
    watch()
    NotificationManager().load_modules()  # else each thread would load them


def send(message: Message, url: str, plugin: Plugin, end: float, picture: bytes = b"", note: str = "") -> AddressResult:
    """Send a message to one address, and try again while that may help, until ``end`` (monotonic clock).

    A message that may have arrived is not sent again here; the guard repeats a warning that nobody took. After an error that may
    be due to the picture (PNG; empty for none) the message is sent without it. ``note`` says why there is no picture.
    """
    service = str(plugin.service_name)
    pause = PAUSE_SECONDS
    letters = max(_LETTERS.findall(message.title), key=len, default="")
    overtaken, wait, said = exchange.overtaken, exchange.wait, AddressResult(service)
    while True:
        if not _in_time(wait, end):
            asked = round(exchange.wait)
            why = f"it asked senders to wait {asked} s more" if asked else NO_TIME
            return said._replace(trouble=said.trouble or why, until=exchange.not_before)
        if overtaken.needless or (wait and overtaken.wait(wait)):
            why = f"{said.trouble}; {OVERTAKEN}" if said.trouble else OVERTAKEN
            return said._replace(trouble=why, until=exchange.not_before)
        if wait := exchange.wait:  # another delivery was told meanwhile to wait
            continue
        exchange.on_try()
        exchange.begin(letters, end)
        plugin.socket_connect_timeout, plugin.socket_read_timeout = patience(exchange.left)
        if _handed_over(message, plugin, picture) and not exchange.declined:
            return AddressResult(service, note=note)
        found = failure(exchange, url)
        if picture and exchange.text_arrived:
            return AddressResult(service, note=f"without its picture: {found.trouble}")
        if picture and not found.blameless:
            picture, note = b"", f"without its picture: {found.trouble}"
            if not found.transient:
                continue
        said = AddressResult(service, found.trouble, found.hint)
        if not found.transient:
            return said
        exchange.on_refusal(said)
        wait = max(pause * random.uniform(0.5, 1.0), exchange.wait)  # noqa: S311 - jitter, no secret
        pause = min(2.0 * pause, PAUSE_LONGEST_SECONDS)


def _in_time(wait: float, end: float) -> bool:
    """Whether there is time for a try after so many seconds."""
    return time.monotonic() + wait + LEAST_SECONDS <= end


def patience(left: float) -> tuple[float, float]:
    """The timeouts for connecting and for the answer, of the seconds ``left`` for a message.

    A connection that fails is tried again. A request that may have arrived is not, so its answer gets all of the time.
    """
    return min(CONNECT_SECONDS, max(LEAST_SECONDS, left / 3.0)), left


def _handed_over(message: Message, plugin: Plugin, picture: bytes) -> bool:
    """Try once. With a picture, an exception of the library counts as a refusal of the picture."""
    kind = TYPES.get(message.level, NotifyType.INFO)
    form = _form(plugin)
    title = _title(message.title, plugin, form)
    cut = 0 < plugin.title_maxlen < len(title)  # the service would drop its end
    whole = f"{message.title}\n\n{message.body}" if cut else message.body
    text = _fitted(whole or message.title, plugin, len(title))
    attached = AppriseAttachment(AttachMemory(content=picture, name=PICTURE, mimetype="image/png")) if picture else None
    try:
        return bool(plugin.notify(body=text, title=title, notify_type=kind, body_format=form, attach=attached))
    except Exception as error:
        if not picture:
            raise
        exchange.log.append(f"Exception {type(error).__name__}: {error}")
        return False


def _title(title: str, plugin: Plugin, form: NotifyFormat) -> str:
    """The title, escaped where the service interprets it: Telegram refuses a message with broken markup, others garble names."""
    part_of_text = plugin.title_maxlen <= 0
    if form == NotifyFormat.HTML and part_of_text:
        return html.escape(title, quote=False)
    if form == NotifyFormat.MARKDOWN and (part_of_text or plugin.service_name in TITLE_IN_MARKDOWN):
        return to_markdown(title)
    return title


def _fitted(text: str, plugin: Plugin, beside: int) -> str:
    """The text in the form that the service shows best, shortened to what it takes beside ``beside`` characters of title."""
    form = _form(plugin)
    room = LONGEST.get(str(plugin.service_name), plugin.body_maxlen) - beside - TITLE_MARKS
    shown, within = _dressed(text, plugin, form), room
    while len(shown) > room and within > 0:  # markup takes room, too
        shown = _dressed(fitted(text, within), plugin, form)
        within = within * 9 // 10
    return shown


def _form(plugin: Plugin) -> NotifyFormat:
    """The form that the service shows best; HTML where that comes first, plain text where it takes anything."""
    given = plugin.notify_format
    forms: Sequence[object] = given if isinstance(given, tuple) else (given,)
    if forms[0] == NotifyFormat.HTML:
        return NotifyFormat.HTML
    if NotifyFormat.MARKDOWN in forms and NotifyFormat.HTML not in forms and plugin.service_name not in OWN_MARKS:
        return NotifyFormat.MARKDOWN
    return NotifyFormat.TEXT


def _dressed(text: str, plugin: Plugin, form: NotifyFormat) -> str:
    """The text in this form."""
    if form == NotifyFormat.HTML:
        # of mail apprise makes a plain part too, in which <code> would begin a line of its own; Telegram knows no <kbd>
        return to_html(text, "code" if plugin.service_name == "Telegram" else "kbd")
    return to_markdown(text) if form == NotifyFormat.MARKDOWN else text


def _plugin(url: str, message_id: str = "") -> Plugin | None:
    """The plug-in for an address; None if apprise cannot use it."""
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
    if found is not None and found.service_name == PAGER:
        _sign(found, message_id)
    if found is not None and found.service_name == SLACK:
        _preview(found)
    return found


def _preview(slack: Any) -> None:  # noqa: ANN401 - a method of it is replaced
    """Give each message of Slack the line that a phone shows: the field *fallback* of an attachment, which apprise leaves out."""
    post = slack._send  # noqa: SLF001 - the one place where the request can be seen before it leaves

    def send(url: str, payload: Any, *arguments: Any, **options: Any) -> object:  # noqa: ANN401 - as it has them
        for attachment in payload.get("attachments", ()) if isinstance(payload, dict) else ():
            attachment.setdefault("fallback", attachment.get("title") or attachment.get("text", ""))
        sent: object = post(url, payload, *arguments, **options)
        return sent

    slack._send = send  # noqa: SLF001 - as above


def _sign(pager: Plugin, message_id: str) -> None:
    """Set source, component and key of a pager's alert, as far as the address does not: with the same key a repeated alert pages nobody again."""
    machine = os.uname().nodename
    defaults = getattr(pager, "template_tokens", {})
    for name, own in (("source", machine), ("component", NAME), ("dedup", f"{NAME}/{machine}/{message_id}")):
        if getattr(pager, name, None) == defaults.get(name, {}).get("default"):
            setattr(pager, name, own)


HAD_BEFORE = "from an earlier try"
"""Note about a service that took an earlier try, and is not asked again."""

NO_TIME = "no time was left to send it"

NO_ADDRESS = AddressResult("?", "this line is not an address", "write it as SERVICE://… (see docs/notify.md)")
"""No part of such a line is quoted, not even its first word: it may be a bare token."""

IN_CLEAR = AddressResult(
    "E-Mail", "its password would go over the network in cleartext", "write mailtos:// instead of mailto://"
)


def _bares_password(plugin: Plugin, url: str) -> bool:
    """Whether mail would send a password without TLS, though the address does not say ``mode=insecure``. To this machine it may."""
    bare = getattr(plugin, "secure_mode", "") == "insecure" and bool(getattr(plugin, "password", ""))
    here = str(getattr(plugin, "smtp_host", "")) in {"localhost", "127.0.0.1", "::1"}
    return bare and not here and "mode=insecure" not in url


def _why_no_plugin(schema: str) -> AddressResult:
    """Say why apprise has no plug-in for an address, by its ``schema`` alone: the rest of the address may be a secret."""
    manager = NotificationManager()
    if schema not in manager:
        return AddressResult(
            f"{schema[:20]}://" if schema.isalnum() else "?",
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
        return AddressResult(str(plugin.service_name), "a library that it needs is not installed", hint)
    return AddressResult(
        str(plugin.service_name),
        "its address is incomplete or misspelled",
        "compare it with the page of this service at https://appriseit.com/services/",
    )


_CALLS_EVERYBODY = re.compile(r"@(?=(?:everyone|here|channel|all|team)\b)|<(?=[!@#])", re.IGNORECASE)
"""Mentions that notify everybody in a channel."""


def harmless(text: str) -> str:
    """Disable mentions in a text: anybody may write the reason of a hold, and the service would take it for the agent's words."""
    return _CALLS_EVERYBODY.sub(lambda found: f"{found[0]}\u2060", clean(text))  # WORD JOINER: takes no room


def deliver(
    message: Message,
    urls: Mapping[str, list[str]],
    end: float,
    draw: Callable[[float], Picture] | None = None,
    *,
    overtaken: Overtaken,
    record: DeliveryRecord | None = None,
    since: float = 0.0,
) -> dict[str, list[AddressResult]]:
    """Send to every address of every channel at the same time.

    Args:
        message: what to send.
        urls: addresses by channel.
        end: when time is up, on the monotonic clock; later for an address that waited for its turn or its picture.
        draw: gives the picture, before a moment of the monotonic clock; only services that take a picture wait for it.
        overtaken: once set, no further try is begun.
        record: addresses that took an earlier try, which are skipped; it is updated at every step.
        since: when the message could leave, on the boot clock.

    Returns:
        By channel, the result of each of its addresses; a channel whose addresses were all spared has none.
    """
    load()
    message = message._replace(title=harmless(message.title), body=harmless(message.body))
    record = record or DeliveryRecord("", Draft(message.id, message.kind), again=False)
    sending = _Sending(message, record, overtaken, (since, end))
    pictured: list[tuple[_Key, str, Plugin]] = []
    for name, addresses in urls.items():
        for number, url in enumerate(addresses):
            key = (name, number)
            if (taken := record.taken.get(key)) is not None:
                sending.spare(key, taken)
                continue
            plugin = _plugin(url, record.first_id)
            sending.due(key, plugin)
            if draw is not None and plugin is not None and plugin.attachment_support:
                pictured.append((key, url, plugin))
            else:
                sending.begin(key, url, plugin)
    if draw is not None and pictured:
        begun = time.monotonic()
        picture = draw(end)
        sending.begin_later(time.monotonic() - begun)
        note = f"without its picture: {picture.why}" if picture.why else ""
        for key, url, plugin in pictured:
            sending.begin(key, url, plugin, picture.data, note)
    results = sending.wait()
    asked = {name: [key for number in range(len(urls[name])) if (key := (name, number)) in results] for name in urls}
    return {name: [results[key] for key in keys] for name, keys in asked.items() if keys}


_Key = tuple[str, int]
"""An address: its channel, and its number there."""


class _Sending:
    """One message on its way to many addresses, each in its own thread.

    ``times``: when it could leave (boot clock), and when time is up (monotonic clock).
    """

    def __init__(
        self, message: Message, record: DeliveryRecord, overtaken: Overtaken, times: tuple[float, float]
    ) -> None:
        self._message, self._record, self._overtaken, self._times = message, record, overtaken, times
        self._results: dict[_Key, AddressResult] = {}
        self._unanswered: dict[_Key, AddressResult] = {}  # the result of an address that does not answer in time
        self._threads: list[threading.Thread] = []

    def spare(self, key: _Key, taken: Taken) -> None:
        """Skip an address that took an earlier try."""
        self._results[key] = AddressResult(taken.whom, note=HAD_BEFORE, at=taken.at)
        self._record.already_taken(*key, taken.whom)

    def due(self, key: _Key, plugin: Plugin | None) -> None:
        """Note that an address will be asked."""
        self._record.due(*key)
        self._unanswered[key] = _no_answer(plugin)._replace(trouble=NO_TIME, hint="")

    def begin_later(self, seconds: float) -> None:
        """Give the addresses that are asked from now on as much more time: they waited for the picture."""
        since, end = self._times
        self._times = (since, end + seconds)

    def begin(self, key: _Key, url: str, plugin: Plugin | None, picture: bytes = b"", note: str = "") -> None:
        """Send to an address, in a new thread, once earlier messages have arrived there."""
        send = functools.partial(self._send, key, url, plugin, picture, note, self._times)
        thread = threading.Thread(target=send, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _send(
        self, key: _Key, url: str, plugin: Plugin | None, picture: bytes, note: str, times: tuple[float, float]
    ) -> None:
        exchange.on_try = functools.partial(self._on_try, key, plugin)
        exchange.on_refusal = functools.partial(self._on_refusal, key)
        exchange.retry_after = RetryAfter(self._record.runtime, *key)
        exchange.overtaken = self._overtaken
        sent = _in_turn(self._record, key, times, lambda until: _sent(self._message, url, plugin, until, picture, note))
        if sent is None:
            del self._unanswered[key]
        else:
            self._results[key] = sent

    def _on_try(self, key: _Key, plugin: Plugin | None) -> None:
        self._record.asked(*key)
        before = self._unanswered[key].trouble
        self._unanswered[key] = _no_answer(plugin, "" if before == NO_TIME else before)

    def _on_refusal(self, key: _Key, said: AddressResult) -> None:
        self._record.not_taken(*key, said.why)
        self._unanswered[key] = said

    def wait(self) -> dict[_Key, AddressResult]:
        """The result of each address, at the end, or as much later as a message may wait for its turn."""
        end = self._times[1] + self._record.longest_wait
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return self._unanswered | dict(self._results)


def _in_turn(
    record: DeliveryRecord, key: _Key, times: tuple[float, float], ask: Callable[[float], AddressResult]
) -> AddressResult | None:
    """Wait for the turn of an address, then ``ask`` it, with its full time. None if an earlier message said enough there."""
    (since, end), begun = times, time.monotonic()
    record.await_turn(*key, since)
    if record.leave_out(*key, exchange.overtaken.later):
        record.done(*key)
        return None
    sent = ask(end + time.monotonic() - begun)
    if sent.trouble:
        record.done(*key, why=sent.why)
        return sent._replace(at=exchange.answered_at)
    record.keep(*key, sent.service)
    return sent._replace(at=time.time())


def unusable(urls: Sequence[str]) -> dict[int, AddressResult]:
    """What is wrong with addresses, by their number from 1, as far as that shows without sending anything."""
    load()
    found = {number: _why_unusable(url, _plugin(url)) for number, url in enumerate(urls, start=1)}
    return {number: sent for number, sent in found.items() if sent is not None}


def _why_unusable(url: str, plugin: Plugin | None) -> AddressResult | None:
    """Why nothing can be sent to an address; None if something can."""
    if plugin is None:
        schema, separator, _ = url.partition("://")
        return _why_no_plugin(schema.lower()) if separator else NO_ADDRESS
    if _bares_password(plugin, url):
        return IN_CLEAR._replace(service=str(plugin.service_name))
    return None


def _no_answer(plugin: Plugin | None, before: str = "") -> AddressResult:
    """The result of an address (which may be a secret) that has not answered when time is up; ``before``: why an earlier try failed."""
    service = "?" if plugin is None else str(plugin.service_name)
    said = f"{before}; a further try had no answer in time" if before else "no answer in time"
    return AddressResult(service, said, MAY_HAVE_ARRIVED)


def _sent(message: Message, url: str, plugin: Plugin | None, end: float, picture: bytes, note: str) -> AddressResult:
    """Send to one address, and return its result whatever goes wrong."""
    bad = _why_unusable(url, plugin)
    if bad is not None or plugin is None:
        return bad or NO_ADDRESS
    try:
        return send(message, url, plugin, end, picture, note)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the other addresses count
        return AddressResult(str(plugin.service_name), mask(f"{type(error).__name__}: {error}", [url])[:200])
