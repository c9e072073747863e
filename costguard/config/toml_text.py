"""Parse a configuration file; explain a mistake by its line and what to write instead."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MOST_BYTES = 1 << 20
"""No configuration is larger."""

_PLACE = re.compile(r"\(at line (\d+), column \d+\)")
_KEY = r"[\w.\"'-]+"
_ASSIGNMENT = re.compile(rf"\s*(?P<key>{_KEY}(?:\s*\.\s*{_KEY})*)\s*=\s*(?P<value>.*?)\s*(?:#[^\"']*)?")
_COLON = re.compile(r"\s*(?P<key>[\w.-]+)\s*:(?P<value>.*)")
_SPACED = re.compile(r"\s*(?P<key>[\w.-]+(?:\s+[\w.-]+)+)\s*=.*")
_HEADER = re.compile(r"\s*\[\[?\s*(?P<table>[^\[\]]+?)\s*\]?\]?\s*(?:#.*)?")
_SHORT = re.compile(r"[\w.:%+-]{1,24}")
"""A value that may be quoted: a word, a number, a date; an address can hold a secret."""

_CURLY = re.compile("[\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb]")
_FOREIGN: Mapping[bytes, str] = {
    b"\x1f\x8b": "is compressed with gzip",
    b"PK\x03\x04": "is a zip archive",
    b"\x7fELF": "is a program",
    b"\xff\xfe": "is written in UTF-16",
    b"\xfe\xff": "is written in UTF-16",
}


def toml(value: object) -> str:
    """One value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join([toml(item) for item in value])}]"
    if isinstance(value, dict):
        return f"{{ {', '.join([f'{name} = {toml(item)}' for name, item in value.items()])} }}"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


class Slip(NamedTuple):
    """A mistake; ``line`` is its number, 0 for the file as a whole."""

    line: int
    text: str


def read(raw: bytes) -> tuple[str, dict[str, object]] | Slip:
    """The text and its values; or the first mistake in it."""
    text = decode(raw)
    if isinstance(text, Slip):
        return text
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return _slip(text, error)
    except RecursionError:
        return Slip(0, "it is nested too deeply; allowed: [table] and name = value")


def decode(raw: bytes) -> str | Slip:
    """The text of a file, without a byte order mark; or why it is not text."""
    if len(raw) > MOST_BYTES:
        return Slip(0, "it is larger than 1 MB; allowed: a configuration file")
    for start, what in _FOREIGN.items():
        if raw.startswith(start):
            return Slip(0, f"it {what}; allowed: a text file in UTF-8")
    if b"\0" in raw:
        return Slip(0, "it contains zero bytes; allowed: a text file in UTF-8")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return Slip(line, "a character is not UTF-8; allowed: a text file in UTF-8")


def _slip(text: str, error: tomllib.TOMLDecodeError) -> Slip:
    """The mistake behind an error of the parser, whose own message needs the grammar."""
    lines = text.splitlines()
    if text.lstrip().startswith("{"):
        return Slip(1, 'this looks like JSON; allowed: TOML, such as mode = "dry-run"')
    place = _PLACE.search(str(error))
    number = min(int(place[1]), len(lines)) if place else _unclosed(lines)
    line = lines[number - 1] if lines else ""
    found = _again(lines, number, str(error)) or _wrong(line) or _open_list(line)
    if not found and (opened := _opened(lines, number)):
        number, found = opened
    allowed = 'allowed: name = value, [table] or # comment, such as grace = "10m"'
    return Slip(number, found or f"this line is not TOML; {allowed}")


def _unclosed(lines: list[str]) -> int:
    """The line that opens what is never closed."""
    found = [number for number, line in enumerate(lines, 1) if _wrong(line) or _open_list(line) or _opens_text(line)]
    return found[0] if found else len(lines)


def _opened(lines: list[str], before: int) -> tuple[int, str] | None:
    """A list or a text that begins further up and never ends; the line that the parser names is inside it."""
    for number in range(before, 0, -1):
        line = lines[number - 1]
        if _opens_text(line):
            return number, 'a text that begins with """ has no closing """'
        if "]" in line and number < before:
            return None
        if match := _ASSIGNMENT.fullmatch(line):
            return (number, _open_list(line)) if match["value"][:1] in {"[", "{"} else None
    return None


def _opens_text(line: str) -> bool:
    return line.count('"""') % 2 == 1 or line.count("'''") % 2 == 1


def _again(lines: list[str], number: int, message: str) -> str:
    """A name that is set twice, or a table that is opened twice."""
    if not message.startswith(("Cannot", "Duplicate", "Key")):
        return ""
    line = lines[number - 1]
    if header := _HEADER.fullmatch(line):
        name = header["table"]
        first = next((n for n, other in enumerate(lines[: number - 1], 1) if _table(other) == name), 0)
        if first:
            return f"the table [{name}] appears twice, first on line {first}; put all its keys under one of them"
        return f"[{name}] is already set above; write it once"
    if match := _ASSIGNMENT.fullmatch(line):
        name, table = match["key"], _table_at(lines, number)
        of_table = _first_of(lines, table, name, number)
        where = f", first on line {of_table}" if of_table else ""
        return f"{name!r} is set twice{where}; keep one of them"
    return ""


def _table(line: str) -> str:
    header = _HEADER.fullmatch(line) if line.lstrip().startswith("[") else None
    return header["table"] if header else ""


def _table_at(lines: list[str], number: int) -> str:
    return next((table for line in reversed(lines[: number - 1]) if (table := _table(line))), "")


def _first_of(lines: list[str], table: str, name: str, before: int) -> int:
    current = ""
    for number, line in enumerate(lines[: before - 1], 1):
        current = _table(line) or current
        match = _ASSIGNMENT.fullmatch(line)
        if match and match["key"] == name and current == table:
            return number
    return 0


def _wrong(line: str) -> str:
    """The mistake in one line; empty when the line alone has none."""
    return next(iter(_slips(line)), "")


def _slips(line: str) -> Iterator[str]:
    if not line.strip() or line.lstrip().startswith("#"):
        return
    if _CURLY.search(line):
        yield 'curly quotation marks; allowed: "straight" ones'
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line):
        yield "this line contains a control character; remove it"
    if line.lstrip().startswith("[") and line.count("[") > line.count("]"):
        name = line.strip().strip("[] ")
        yield f"the closing bracket is missing; write [{name}]"
    if match := _ASSIGNMENT.fullmatch(line):
        yield from _value(match["key"], match["value"])
    elif match := _COLON.fullmatch(line):
        yield f"a colon instead of an equals sign; write {_example(match['key'], match['value'].strip())}"
    elif match := _SPACED.fullmatch(line):
        yield f"a name has no spaces; write {'_'.join(match['key'].split())} = …"
    elif line.lstrip().startswith("="):
        yield 'the name before the equals sign is missing; allowed: name = value, such as grace = "10m"'
    elif "=" not in line and "[" not in line:
        yield f"a name without a value; allowed: name = value, such as {_example(line.split(maxsplit=1)[0], '…')}"


def _value(key: str, value: str) -> Iterator[str]:
    """What is wrong after the equals sign."""
    quote = value[:1]
    if not value:
        yield f"{key!r} has no value; write {_example(key, '…')}"
    elif quote in {'"', "'"}:
        yield from _quoted(key, value, quote)
    elif value[:1] in {"[", "{"} or value in {"true", "false"}:
        return
    elif value.lower() in {"true", "false", "yes", "no", "on", "off"}:  # as in YAML or Python
        other = {"yes": "true", "no": "false"}.get(value.lower(), value.lower())
        word = f'"{other}"' if other in {"on", "off"} else other
        yield f"{value} is not TOML; write {key} = {word}"
    elif re.match(r"[+-]?[$€£.]?\d*[.,]?\d", value) and re.fullmatch(r"[\d$€£.,_+ -]+", value):
        yield from _numeral(key, value)
    else:
        yield f"a word, a time or a share needs quotation marks; write {_example(key, value.strip(chr(34) + chr(39)))}"


def _quoted(key: str, value: str, quote: str) -> Iterator[str]:
    if value.startswith(quote * 3):
        return
    end = _closing(value, quote)
    if end < 0:
        other = "'" if quote == '"' else '"'
        mixed = value.endswith(other) and len(value) > 1
        what = f"begins with {quote} and ends with {other}" if mixed else "has no closing quotation mark"
        yield f"the value of {key!r} {what}; write {_example(key, value.strip(quote + other))}"
    elif value[end + 1 :].strip():
        yield f'there is text after the value of {key!r}; allowed: one value, or a list: {key} = ["…", "…"]'
    elif quote == '"' and re.search(r'\\(?![btnfr"\\uU])', value):
        yield f"a backslash is special between \" and \"; put the value of {key!r} between ' and '"


def _closing(value: str, quote: str) -> int:
    position = 1
    while position < len(value):
        if value[position] == "\\" and quote == '"':
            position += 1
        elif value[position] == quote:
            return position
        position += 1
    return -1


def _open_list(line: str) -> str:
    match = _ASSIGNMENT.fullmatch(line)
    if match is None or match["value"][:1] not in {"[", "{"}:
        return ""
    opens, closes = ("[", "]") if match["value"][0] == "[" else ("{", "}")
    if match["value"].count(opens) > match["value"].count(closes):
        return f"the list of {match['key']!r} has no closing {closes}; write {match['key']} = {opens}…{closes}"
    return f"the list of {match['key']!r} is not TOML; separate its values by commas, and put words in quotation marks"


def _numeral(key: str, value: str) -> Iterator[str]:
    """A number with a currency, a comma or leading zeros; nothing where TOML accepts it."""
    try:
        tomllib.loads(f"x = {value}")
    except tomllib.TOMLDecodeError:
        plain = value.strip("$€£ ").replace(",", ".").replace(" ", "").replace("_", "").lstrip("0") or "0"
        plain = f"0{plain}" if plain.startswith(".") else plain
        shown = plain if re.fullmatch(r"\d+(\.\d+)?", plain) else "…"
        yield f"{value} is not a number; write {key} = {shown}"


def _example(key: str, value: str) -> str:
    shown = value if _SHORT.fullmatch(value) else "…"
    return f'{key} = "{shown}"'
