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
"""Characters for what a service puts around a title that it takes for a part of the text."""

TEAMS = "Power Automate / Workflows (for MSTeams)"

TITLE_IN_MARKDOWN = frozenset(("Discord", TEAMS))
"""Services that take the title apart from the text, and show its marks all the same."""

LONGEST = {TEAMS: 20_000}
"""Characters of a message that a service takes, where apprise knows less: a card of Teams has 28 kB."""

OWN_MARKS = frozenset((SLACK,))
"""Services whose marks are not those of Markdown: nothing that somebody wrote could be kept from being one."""

_LETTERS = re.compile(r"[A-Za-z0-9]{4,}")
"""What stands in a request as it stands in a title, whatever encodes it."""


class Plugin(Protocol):
    """What sends to one service, as apprise has it."""

    service_name: object
    body_maxlen: int
    title_maxlen: int
    notify_format: object
    attachment_support: bool
    socket_connect_timeout: float
    socket_read_timeout: float

    def notify(self, **message: object) -> object:
        """Send; true when the service took it."""


class Sent(NamedTuple):
    """What became of a message at one address: the service, why it was not taken (empty: it was), and what to do.

    ``note``: of a message that was taken, what did not come with it. ``until``: the moment of the boot clock until which the
    service wants to be left alone, if it does. ``at``: the date at which it answered, if it did.
    """

    service: str
    trouble: str = ""
    hint: str = ""
    note: str = ""
    until: float = 0.0
    at: float | None = None

    @property
    def why(self) -> str:
        """Why it was not taken, with the service, and what to do."""
        return f"{self.service}: {self.trouble}" + (f" ({self.hint})" if self.hint else "")


class _Memory(logging.Handler):
    """Keeps what apprise logs, for the thread that made it do so. It reaches no file and no terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING or "xception" in text:  # how long it took is no reason
            exchange.log.append(text)


def quiet() -> None:
    """Prepare this process, once (`_ready`): libraries log to memory alone."""
    logging.getLogger().addHandler(logging.NullHandler())
    apprise_log = logging.getLogger("apprise")
    apprise_log.handlers, apprise_log.propagate = [_Memory()], False
    apprise_log.setLevel(logging.DEBUG)


_one_at_a_time = threading.Lock()


def load() -> None:
    """Have the library ready to send, which takes seconds of a processor the first time."""
    with _one_at_a_time:
        _ready()


@functools.cache
def _ready() -> None:
    quiet()
    watch()
    NotificationManager().load_modules()  # by several threads at once it would be loaded as often


def send(message: Message, url: str, plugin: Plugin, end: float, picture: bytes = b"", note: str = "") -> Sent:
    """Hand a message over to one address, with further tries while they may help, until ``end`` of the monotonic clock.

    What may have arrived is not sent again here: where nobody took a warning, a later delivery repeats it. What may be wrong with
    a picture costs the picture: the text goes on without it.
    """
    service = str(plugin.service_name)
    pause = PAUSE_SECONDS
    letters = max(_LETTERS.findall(message.title), key=len, default="")
    overtaken, wait, said = exchange.overtaken, exchange.wait, Sent(service)
    while True:
        if not _in_time(wait, end):
            asked = round(exchange.wait)
            why = f"it asked to be left alone for {asked} s more" if asked else NO_TIME
            return said._replace(trouble=said.trouble or why, until=exchange.not_before)
        if overtaken.needless or (wait and overtaken.within(wait)):
            why = f"{said.trouble}; {OVERTAKEN}" if said.trouble else OVERTAKEN
            return said._replace(trouble=why, until=exchange.not_before)
        if wait := exchange.wait:  # another delivery has heard it meanwhile
            continue
        exchange.asking()
        exchange.begin(letters, end)
        plugin.socket_connect_timeout, plugin.socket_read_timeout = patience(exchange.left)
        if _handed_over(message, plugin, picture) and not exchange.declined:
            return Sent(service, note=note)
        found = failure(exchange, url)
        if picture and exchange.text_arrived:
            return Sent(service, note=f"without its picture: {found.trouble}")
        if picture and not found.blameless:
            picture, note = b"", f"without its picture: {found.trouble}"
            if not found.passing:
                continue
        said = Sent(service, found.trouble, found.hint)
        if not found.passing:
            return said
        exchange.refused(said.why)
        wait = max(pause * random.uniform(0.5, 1.0), exchange.wait)  # noqa: S311 - jitter, no secret
        pause = min(2.0 * pause, PAUSE_LONGEST_SECONDS)


def _in_time(wait: float, end: float) -> bool:
    """Whether there is time for a try after so many seconds."""
    return time.monotonic() + wait + LEAST_SECONDS <= end


def patience(left: float) -> tuple[float, float]:
    """Seconds in which to connect, and in which to answer, of those that are ``left`` for a message.

    Whom nobody reached is tried again. Who may have taken it is not, so the answer has all of the time.
    """
    return min(CONNECT_SECONDS, max(LEAST_SECONDS, left / 3.0)), left


def _handed_over(message: Message, plugin: Plugin, picture: bytes) -> bool:
    """One try. With a picture an error of the library is one of that."""
    kind = TYPES.get(message.level, NotifyType.INFO)
    form = _form(plugin)
    title = _title(message.title, plugin, form)
    cut = 0 < plugin.title_maxlen < len(title)  # else its end would be lost
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
    """The title, in which nothing that somebody wrote is markup: Telegram would refuse the message, and others show another name."""
    part_of_text = plugin.title_maxlen <= 0
    if form == NotifyFormat.HTML and part_of_text:
        return html.escape(title, quote=False)
    if form == NotifyFormat.MARKDOWN and (part_of_text or plugin.service_name in TITLE_IN_MARKDOWN):
        return to_markdown(title)
    return title


def _fitted(text: str, plugin: Plugin, beside: int) -> str:
    """The text as the service shows it best, in as many characters as it takes: it would refuse a longer one, title and all."""
    form = _form(plugin)
    room = LONGEST.get(str(plugin.service_name), plugin.body_maxlen) - beside - TITLE_MARKS
    shown, within = _dressed(text, plugin, form), room
    while len(shown) > room and within > 0:  # what marks it up takes room, too
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
    if found is not None and found.service_name == PAGER:
        _sign(found, message_id)
    if found is not None and found.service_name == SLACK:
        _preview(found)
    return found


def _preview(slack: Any) -> None:  # noqa: ANN401 - a method of it is replaced
    """Give each message the line that a phone shows: Slack has none for an attachment without *fallback*, which apprise leaves out."""
    post = slack._send  # noqa: SLF001 - the one place where the request can be seen before it leaves

    def send(url: str, payload: Any, *arguments: Any, **options: Any) -> object:  # noqa: ANN401 - as it has them
        for attachment in payload.get("attachments", ()) if isinstance(payload, dict) else ():
            attachment.setdefault("fallback", attachment.get("title") or attachment.get("text", ""))
        sent: object = post(url, payload, *arguments, **options)
        return sent

    slack._send = send  # noqa: SLF001 - as above


def _sign(pager: Plugin, message_id: str) -> None:
    """An alert of a pager is this machine's, and costguard's, unless the address says otherwise; a repeated one wakes nobody again."""
    machine = os.uname().nodename
    defaults = getattr(pager, "template_tokens", {})
    for name, own in (("source", machine), ("component", NAME), ("dedup", f"{NAME}/{machine}/{message_id}")):
        if getattr(pager, name, None) == defaults.get(name, {}).get("default"):
            setattr(pager, name, own)


HAD_BEFORE = "from an earlier try"
"""Beside the name of a service that has the message and is not asked again."""

NO_TIME = "no time was left to send it"

NO_ADDRESS = Sent("?", "this line is not an address", "write it as SERVICE://…, as docs/notify.md has them")
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
        return Sent(str(plugin.service_name), "a library that it needs is not installed", hint)
    return Sent(
        str(plugin.service_name),
        "its address is incomplete or misspelt",
        "compare it with the page of this service at https://appriseit.com/services/",
    )


_CALLS_EVERYBODY = re.compile(r"@(?=(?:everyone|here|channel|all|team)\b)|<(?=[!@#])", re.IGNORECASE)
"""What wakes a whole channel where a service finds it in a text."""


def harmless(text: str) -> str:
    """The text without what wakes everybody: the reason of a hold is anybody's, and a service takes it for the agent's."""
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
) -> dict[str, list[Sent]]:
    """Send to every address of every channel at the same time; what had come of each by ``end``, or as much later as it waited for its turn, or its picture.

    ``draw`` gives the picture for those that take one; nobody else waits for it. Who stands in ``record`` is not asked again, and
    who takes the message is written there. ``since``: when it could leave, on the boot clock. Once it is
    ``overtaken`` no further try is begun.
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
    came = sending.wait()
    asked = {name: [key for number in range(len(urls[name])) if (key := (name, number)) in came] for name in urls}
    return {name: [came[key] for key in keys] for name, keys in asked.items() if keys}


_Key = tuple[str, int]
"""An address: its channel, and its number there."""


class _Sending:
    """One message on its way to many addresses, each in a thread of its own. ``times``: since when it could leave, and its end."""

    def __init__(
        self, message: Message, record: DeliveryRecord, overtaken: Overtaken, times: tuple[float, float]
    ) -> None:
        self._message, self._record, self._overtaken, self._times = message, record, overtaken, times
        self._found: dict[_Key, Sent] = {}
        self._late: dict[_Key, Sent] = {}  # what is said of an address that has no answer in time
        self._threads: list[threading.Thread] = []

    def spare(self, key: _Key, taken: Taken) -> None:
        """An address has the message from an earlier try."""
        self._found[key] = Sent(taken.whom, note=HAD_BEFORE, at=taken.at)
        self._record.already_taken(*key, taken.whom)

    def due(self, key: _Key, plugin: Plugin | None) -> None:
        """An address is to be asked."""
        self._record.due(*key)
        self._late[key] = _late(plugin)._replace(trouble=NO_TIME, hint="")

    def begin_later(self, seconds: float) -> None:
        """Whoever is asked from now on waited for a picture, and has all of the time for its answer."""
        since, end = self._times
        self._times = (since, end + seconds)

    def begin(self, key: _Key, url: str, plugin: Plugin | None, picture: bytes = b"", note: str = "") -> None:
        """Ask an address, once it is its turn."""
        send = functools.partial(self._send, key, url, plugin, picture, note, self._times)
        thread = threading.Thread(target=send, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _send(
        self, key: _Key, url: str, plugin: Plugin | None, picture: bytes, note: str, times: tuple[float, float]
    ) -> None:
        exchange.asking = functools.partial(self._asking, key, plugin)
        exchange.refused = functools.partial(self._record.not_taken, *key)
        exchange.retry_after = RetryAfter(self._record.runtime, *key)
        exchange.overtaken = self._overtaken
        sent = _in_turn(self._record, key, times, lambda until: _one(self._message, url, plugin, until, picture, note))
        if sent is None:
            del self._late[key]
        else:
            self._found[key] = sent

    def _asking(self, key: _Key, plugin: Plugin | None) -> None:
        self._record.asked(*key)
        self._late[key] = _late(plugin)

    def wait(self) -> dict[_Key, Sent]:
        """What has come of each address by the end, or as much later as it may have waited for its turn."""
        end = self._times[1] + self._record.longest_wait
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return self._late | dict(self._found)


def _in_turn(
    record: DeliveryRecord, key: _Key, times: tuple[float, float], ask: Callable[[float], Sent]
) -> Sent | None:
    """What came of an address, which has all of the time from its turn on; None where it has read enough by then."""
    (since, end), begun = times, time.monotonic()
    record.await_turn(*key, since)
    if key in record.spared:
        record.done(*key)
        return None
    sent = ask(end + time.monotonic() - begun)
    if sent.trouble:
        record.done(*key, why=sent.why)
        return sent._replace(at=exchange.answered_at)
    record.keep(*key, sent.service)
    return sent._replace(at=time.time())


def unusable(urls: Sequence[str]) -> dict[int, Sent]:
    """What is wrong with addresses, by their numbers from 1, as far as that is known without sending anything."""
    load()
    found = {number: _refused(url, _plugin(url)) for number, url in enumerate(urls, start=1)}
    return {number: sent for number, sent in found.items() if sent is not None}


def _refused(url: str, plugin: Plugin | None) -> Sent | None:
    """Why nothing is sent to an address at all."""
    if plugin is None:
        schema, separator, _ = url.partition("://")
        return _unusable(schema.lower()) if separator else NO_ADDRESS
    if _bares_password(plugin, url):
        return IN_CLEAR._replace(service=str(plugin.service_name))
    return None


def _late(plugin: Plugin | None) -> Sent:
    """What is said of an address that has not answered when the time is over; what stands in it may be a secret."""
    service = "?" if plugin is None else str(plugin.service_name)
    return Sent(service, "no answer in time", MAY_HAVE_ARRIVED)


def _one(message: Message, url: str, plugin: Plugin | None, end: float, picture: bytes, note: str) -> Sent:
    """What came of one address."""
    bad = _refused(url, plugin)
    if bad is not None or plugin is None:
        return bad or NO_ADDRESS
    try:
        return send(message, url, plugin, end, picture, note)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the other addresses count
        return Sent(str(plugin.service_name), mask(f"{type(error).__name__}: {error}", [url])[:200])
