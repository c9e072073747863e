"""What each service gets of a text: commands that stand out, lines as they were, and no markup that a user of the machine wrote."""

import email
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from costguard.notify.markup import to_html, to_markdown
from tests.faults.test_notify_picture import CANARY, SLACK, Services
from tests.faults.test_notify_remote import Mail as MailServer
from tests.faults.test_notify_remote import tell, written

BODY = 'ann: "a_b *now* <b>x</b> & <script>"\nCost: 4.10 USD/h\n\nRun `costguard hold 2h` to keep it.\nHold: https://hold.example.org/i_1\n# not a title'
CHATS = {
    "Discord": f"discord://{'1' * 18}/{CANARY}{'x' * 60}",
    "Slack": SLACK,
    "Telegram": "tgram://123456789:abcdefg_hijklmnop/12315544/",
    "Teams": "workflows://slack.com/WORKFLOWID/SIGN",
}


PLACES: dict[str, Callable[[Any], str]] = {
    "Discord": lambda request: request["content"],
    "Slack": lambda request: request["attachments"][0]["text"],
    "Telegram": lambda request: request["text"],
    "Teams": lambda request: request["attachments"][0]["content"]["body"][-1]["text"],
}
"""Where each service has the text."""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with Services(tmp_path) as server:
        server.answer = lambda _request: (200, {"ok": True, "channel": "C1"})
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("service", CHATS)
def test_a_command_stands_out_and_what_users_write_is_no_markup(
    tmp_path: Path, services: Services, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason of a hold is anybody's: unescaped it would change the message, or make the service refuse it."""
    for name, value in services.environment.items():
        monkeypatch.setenv(name, value)
    answer, _ = tell(tmp_path, {"chat": {"urls": written(tmp_path, "chat", CHATS[service])}}, body=BODY)
    assert "chat" in answer["reached"], answer
    text = PLACES[service](json.loads(services.asked[-1].body))
    assert ("<code>costguard hold 2h</code>" if service == "Telegram" else "`costguard hold 2h`") in text
    assert "Cost: 4.10 USD/h" in [line.strip() for line in text.splitlines()], "lines are as they were"
    assert b"Apprise" not in services.asked[-1].body
    assert b"github" not in services.asked[-1].body, "no picture is fetched from elsewhere to show it"
    plain = {"Telegram": "a_b *now* &lt;b&gt;x&lt;/b&gt; &amp; &lt;script&gt;", "Slack": "a_b *now* &lt;b&gt;"}
    assert plain.get(service, "a\\_b \\*now\\*") in text


TITLES: dict[str, tuple[Callable[[Any], str], str]] = {
    "Discord": (lambda request: request["content"], "ann\\_b \\*now\\* <b> & x\r\n"),
    "Slack": (lambda request: request["attachments"][0]["title"], "ann_b *now* &lt;b&gt; &amp; x"),
    "Telegram": (lambda request: request["text"], "<b>ann_b *now* &lt;b&gt; &amp; x</b>"),
    "Teams": (lambda request: request["attachments"][0]["content"]["body"][0]["text"], "ann\\_b \\*now\\* <b> & x"),
}
"""Where each service has the title, and how it must stand there."""


@pytest.mark.parametrize("service", TITLES)
def test_a_name_in_a_title_is_no_markup(
    tmp_path: Path, services: Services, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that somebody calls ``<b>`` would else make Telegram refuse the message, and a name with marks be another one."""
    for name, value in services.environment.items():
        monkeypatch.setenv(name, value)
    channels = {"chat": {"urls": written(tmp_path, "chat", CHATS[service])}}
    answer, _ = tell(tmp_path, channels, title="ann_b *now* <b> & x", body="Look.")
    assert "chat" in answer["reached"], answer
    place, expected = TITLES[service]
    assert place(json.loads(services.asked[-1].body)).startswith(expected)


def test_mail_has_html_and_plain_text_and_both_say_the_same(tmp_path: Path) -> None:
    """A phone shows the one, an old reader the other; no line is held together by spaces that do not break."""
    with MailServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"mailto://127.0.0.1:{server.server_address[1]}?from=box@example.org&to=ann@example.org&mode=insecure"
        channels = {"mail": {"urls": written(tmp_path, "mail", url)}}
        answer, _ = tell(tmp_path, channels, title="ann_b & <b>", body=BODY)
        server.shutdown()
    assert answer["reached"] == {"mail": "E-Mail"}
    assert email.message_from_string(server.taken[0])["Subject"] == "ann_b & <b>", (
        "a subject is no markup, and stays as it is"
    )
    parts: dict[str, str] = {}
    for part in email.message_from_string(server.taken[0]).walk():
        if not part.is_multipart():
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            parts[part.get_content_type()] = payload.decode()
    assert list(parts) == ["text/plain", "text/html"]
    assert "<kbd>costguard hold 2h</kbd>" in parts["text/html"]
    assert "&lt;script&gt;" in parts["text/html"]
    assert '<a href="https://hold.example.org/i_1">' in parts["text/html"]
    assert "https://hold.example.org/i_1" in parts["text/plain"]
    assert "&nbsp;" not in parts["text/html"]
    assert "costguard hold 2h" in parts["text/plain"]
    assert "<script>" in parts["text/plain"]


@pytest.mark.parametrize(
    "text", ["", "one line", "a\n\n\n\nb", "`", "``", "`a` `b`", "- x\n1. y\n> z", "\\", "a | b [c](d)"]
)
def test_nothing_of_a_text_is_lost(text: str) -> None:
    """Whatever stands in it: both forms hold each of its words."""
    for word in text.replace("`", " ").split():
        assert word in to_html(text).replace("&gt;", ">")
        assert word in to_markdown(text).replace("\\", "") or word == "\\"


@pytest.mark.parametrize(("text", "expected"), [
    ("hold it: https://hold.example.org/i-1?a=1&b=2", 'hold it: <a href="https://hold.example.org/i-1?a=1&amp;b=2">https://hold.example.org/i-1?a=1&amp;b=2</a>'),
    ("See https://x.example/y.", 'See <a href="https://x.example/y">https://x.example/y</a>.'),
    ("at https://hooks.example.org/***", "at https://hooks.example.org/***"),
    ('`curl https://x.example` "javascript:x"', "<code>curl https://x.example</code> &quot;javascript:x&quot;"),
])  # fmt: skip
def test_an_address_is_a_link_in_html(text: str, expected: str) -> None:
    """A mail program may make it one, and many do not; one that hides a secret leads nowhere."""
    assert to_html(text) == f"<p>{expected}</p>"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "https://hooks.example.org/***",
            "https://hooks.example.org/\\*\\*\\*",
        ),  # a secret is hidden there: it leads nowhere
        ("https://hold.example.org/box_a?id=i_1~2*3", "https://hold.example.org/box%5Fa?id=i%5F1%7E2%2A3"),
        ("http://my_host/x", "http://my_host/x"),
        ("https://hold.example.org", "https://hold.example.org"),
        ("https://a.example/[x](http://b)", "https://a.example/%5Bx%5D(http://b)"),
    ],
)
def test_an_address_stays_one_that_leads_there(address: str, expected: str) -> None:
    """No backslash in it, and no markup: the marks are written as every server reads them."""
    assert to_markdown(f"hold_it: {address} now_") == f"hold\\_it: {expected} now\\_"
    assert address in re.sub(r"</?a[^>]*>", "", to_html(address)).replace("&amp;", "&")
