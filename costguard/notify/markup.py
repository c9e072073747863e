"""The text of a message as HTML and as Markdown: commands stand out, lines end where they did, and nothing else is markup."""

import html
import re
from collections.abc import Callable

from costguard.masking import HIDDEN

_CODE = re.compile(r"`([^`\n]+)`")
_ADDRESS = re.compile(r"(https?://[^\s<>`\"']+)")
_MARKS = re.compile(r"[\\*_~|\[\]]")
_ENDS = ".,;:!?)"
_BEGINS_A_LINE = re.compile(r"^(\s*)([#>+-]|\d+[.)])(?=\s)", re.MULTILINE)


def to_html(text: str, command: str = "code") -> str:
    """Convert to HTML paragraphs. Text between backticks gets the element ``command``."""
    paragraphs = [block for block in text.split("\n\n") if block.strip()]
    return "".join(f"<p>{_lines(block, command)}</p>" for block in paragraphs)


def _lines(block: str, command: str) -> str:
    lines = block.strip("\n").split("\n")
    return "<br>".join(
        _spans(line.strip(), _linked, lambda code: f"<{command}>{html.escape(code)}</{command}>") for line in lines
    )


def _linked(text: str) -> str:
    """Make each address a link; one whose secret is masked leads nowhere and stays text."""
    parts = _ADDRESS.split(text)
    return "".join(
        _link(part) if number % 2 and HIDDEN not in part else html.escape(part) for number, part in enumerate(parts)
    )


def _link(address: str) -> str:
    """The link for one address, without the punctuation that ends the sentence."""
    place = html.escape(address.rstrip(_ENDS))
    return f'<a href="{place}">{place}</a>{html.escape(address[len(address.rstrip(_ENDS)) :])}'


def to_markdown(text: str) -> str:
    """Convert to Markdown with only commands marked up; two spaces before a line end keep the line break."""
    plain = _spans(text, _literal, lambda code: f"`{code}`")
    return re.sub(r"(?<=\S)\n(?=\S)", "  \n", plain)


def _literal(text: str) -> str:
    parts = _ADDRESS.split(text)
    escaped = "".join(
        _address(part) if number % 2 else _MARKS.sub(lambda mark: f"\\{mark[0]}", part)
        for number, part in enumerate(parts)
    )
    return _BEGINS_A_LINE.sub(lambda mark: f"{mark[1]}\\{mark[2]}", escaped)


def _address(address: str) -> str:
    """The address with its marks percent-encoded (RFC 3986, 2.1): a backslash before a mark would become part of the address.

    One whose secret is masked leads nowhere and stays as it is.
    """
    if HIDDEN in address:
        return _MARKS.sub(lambda mark: f"\\{mark[0]}", address)
    host_end = address.find("/", address.index("://") + 3)
    host, path = (address, "") if host_end < 0 else (address[:host_end], address[host_end:])
    return host + _MARKS.sub(lambda mark: f"%{ord(mark[0]):02X}", path)


def _spans(text: str, plain: Callable[[str], str], code: Callable[[str], str]) -> str:
    """Apply ``code`` to each command and ``plain`` to each piece between them."""
    parts = _CODE.split(text)
    return "".join(code(part) if number % 2 else plain(part) for number, part in enumerate(parts))
