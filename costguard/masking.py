"""Hide what looks like a secret in text that people read, paste and send.

Of an address the scheme and the host stay: a webhook's secret is its path, a database's its user, a signed link's its query.
"""

import re
from collections.abc import Sequence

HIDDEN = "***"
LONGEST = 1 << 16
"""Characters that are searched; longer text is cut off."""

_WEB = frozenset(("http", "https", "ws", "wss", "ftp", "sftp", "ssh", "tcp", "s3", "gs"))
"""Schemes whose first part is a host. In others (``slack://TOKEN/…``) it may be the secret itself."""

_ADDRESS = re.compile(r"(?<![\w+.-])([a-z][\w+.-]{0,30})(:(?:\\?/){2}|%3A%2F%2F)([^\s\"'<>`]+)", re.IGNORECASE)
_HOST = re.compile(r"(?:[\w.-]+|\[[\da-f:.]+\])(?::\d+)?", re.IGNORECASE)
_END = re.compile(r"[.,;:!?)\]}]*$")
_BARE = re.compile(
    r"(?<![\w/.:@-])((?:[\w-]{1,63}\.){1,8}[a-z]{2,24}(?::\d+)?)/(?=\S*?(?:(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{16}|hook))[^\s\"'<>`]+",
    re.IGNORECASE,
)
"""An address without its scheme, whose path holds something like a key."""

_KEYS = r"(?:api|access|private|account|storage|shared|master|signing|encryption)[_-]?key"
_SPOKEN_KEYS = _KEYS.replace("[_-]", "[ _-]")
_NAMES = rf"(?:token|secret|passw(?:or)?d|passphrase|pwd|{_KEYS}|signature)"
_CLIENTS = r"(?:mysql|mariadb|sshpass)[\w-]*"
"""Programs that take a password right after ``-p``."""

_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s&\"',;]+)"
_UNLIKE_A_WORD = r"(?=[^\s]*(?:\d|[^\W\d_][A-Z]|[^\w\s.,;:!?)\]}'\"-]))(?![-(\[<>=:/~])[^\s&\"',;]{3,}"
"""What stands right after *password* and is no word of a sentence: it has a digit, a capital inside, or a sign."""

_OF_A_USER = r"\b(?:login|user(?:name)?|account)[\s=:]+[^\s,;]{1,64}[\s,;]+passw(?:or)?d\s+"
_SAID_OF_ONE = r"(?:auth\w*|change\w*|expire[sd]|failed|for|from|has|incorrect|invalid|is|login|mismatch|must|not|or|prompt|re\w+|was|will|wrong)"
"""What may stand right after *user ann password*, and is no password."""

_MADE_UP_WORD = r"(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Za-z])[\w+/=-]{16,}"
_IN_CAPITALS = "(?:TOKEN|SECRET|PASSW(?:OR)?D|KEY)"

_SECRETS = (
    re.compile(r"(?P<keep>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?P<end>-----END|\Z)", re.DOTALL),
    re.compile(r"(?P<keep>\bauthorization[\"']?:\s*[\"']?)[^\s\"']+(\s+[^\s\"']+)?(?P<end>)", re.IGNORECASE),
    re.compile(r"(?P<keep>\bbearer\s+)[^\s\"']+(?P<end>)", re.IGNORECASE),
    re.compile(r"(?P<keep>\b(?:set-)?cookie2?[\"']?\s*:\s*[\"']?)[^\s\"'][^\r\n\"']*(?P<end>)", re.IGNORECASE),
    re.compile(rf"(?P<keep>\b{_CLIENTS}\b[^\n;|&]{{0,80}}?[\s\"']-p){_VALUE}(?P<end>)"),
    re.compile(rf"(?P<keep>\bsshpass\s+-p\s+){_VALUE}(?P<end>)"),
    re.compile(rf"(?P<keep>\bredis-cli\b[^\n;|&]{{0,80}}?\s-a\s+){_VALUE}(?P<end>)"),
    re.compile(r"(?P<keep>\bcurl\b[^\n;|&]{0,80}?\s(?:-u\s*|--user[\s=]+)[\"']?[^\s:\"']+:)[^\s\"']+(?P<end>)"),
    re.compile(
        rf"(?P<keep>(?<![\w-])[\w-]{{0,64}}?{_NAMES}[\w-]{{0,64}}[\"']?\s*[=:]\s*|\bsig=)(?!NAME\b){_VALUE}(?P<end>)",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?P<keep>(?<!\S)[\"'\[(]*--?[\w-]{{0,64}}?{_NAMES}[\w-]{{0,64}}[\"']?,?\s+){_VALUE}(?P<end>)", re.IGNORECASE
    ),
    re.compile(
        rf"(?i:(?P<keep>\b(?:passw(?:or)?d|passphrase|pwd)[\"']?\s+(?:(?:is|was)\s+)?)){_UNLIKE_A_WORD}(?P<end>)"
    ),
    re.compile(rf"(?P<keep>{_OF_A_USER})(?!{_SAID_OF_ONE}\b){_VALUE}(?P<end>)", re.IGNORECASE),  # as netrc(5) has it
    re.compile(
        rf"(?P<keep>(?<![\w-])[A-Z][A-Z\d]*_(?:[A-Z\d]+_)*{_IN_CAPITALS}(?:_[A-Z\d]+)*\s+){_UNLIKE_A_WORD}(?P<end>)"
    ),
    re.compile(rf"(?i:(?P<keep>\b(?:token|{_SPOKEN_KEYS})\s+(?:is\s+)?)){_MADE_UP_WORD}(?P<end>)"),
    re.compile(r"(?P<keep>\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+/)[^\s\"']+(?P<end>)"),
    re.compile(r"(?P<keep>(?:\burl|:path):?\s+[\"']?/)[^\s\"']+(?P<end>)", re.IGNORECASE),
    re.compile(
        r"(?P<keep>\b(?:xox[a-z]-|xapp-|gh[opsur]_|github_pat_|glpat-|hf_|sk-|sk_live_|nvapi-|AIza|ya29\.))[\w-]{10,}(?P<end>)"
    ),
    # JSON in base64, as tokens begin
    re.compile(r"(?P<keep>(?<!\w))eyJ[\w+/-]{10,}={0,2}(?:\.[\w+/-]*={0,2}){0,4}(?P<end>)"),
)
_NAMED = re.compile(
    r"costguard permissions [a-z][\w-]{0,40} --secret [\w/.:+=@-]{1,600}|--secret-id [\w/.:+=@-]{1,600}"
)
"""Commands to type that name where a secret is kept; without the name they are no help, and it is none."""

_FLAG = re.compile(rf"(?i)--?[\w-]*{_NAMES}[\w-]*")
_ATTACHED = re.compile(r"-p.")
_MADE_UP = re.compile(r"[A-Z\d]|.{20}")
"""In a part of a path: what distinguishes a key from a word such as *services*."""

_LONG_ENOUGH = 6
"""A shorter part of a known address is not a secret; hiding it everywhere would hide words."""


def mask(text: str, known: Sequence[str] = ()) -> str:
    """Hide what follows the host of addresses, user information, authorisation headers, ``token=…`` and the like.

    ``known``: addresses and arguments that the author of the text had; what is hidden in them is also hidden where it
    stands alone in the text.
    """
    named: list[str] = []

    def set_aside(found: re.Match[str]) -> str:
        named.append(found[0])
        return f"\0{len(named) - 1}\0"

    text = _NAMED.sub(set_aside, text[:LONGEST].replace("\0", " "))
    text = _BARE.sub(rf"\1/{HIDDEN}", _ADDRESS.sub(_host_alone, text))
    for secret in sorted({part for item in known for part in _hidden_parts(item)}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<keep>{HIDDEN}\g<end>", text)
    return re.sub(r"\0(\d+)\0", lambda found: named[int(found[1])], text) if named else text


def address(value: str) -> str:
    """The scheme and host of a value that should be an address, whatever is wrong with it."""
    scheme, server, rest = re.match(r"\s*([\w+.-]*:[\\/]*)?([^/?#\\\s]*)(.*)", value, re.DOTALL).groups("")  # type: ignore[union-attr]  # every part may be empty
    return mask(f"{scheme}{server}") + (f"/{HIDDEN}" if rest.strip("/ ") else rest)


def mask_all(arguments: Sequence[str]) -> list[str]:
    """`mask` for the arguments of a program; also hides the value of a flag such as ``--token``, or ``-u user:…``."""
    before, attached = ("", *arguments), _attaches(arguments)
    return [
        HIDDEN if _is_value(flag, part) else f"-p{HIDDEN}" if attached and _ATTACHED.match(part) else mask(part)
        for flag, part in zip(before, arguments, strict=False)
    ]


def secrets_of(arguments: Sequence[str]) -> list[str]:
    """The arguments as `mask` takes them in ``known``: the value of a flag such as ``--token`` is hidden as a whole."""
    before, attached = ("", *arguments), _attaches(arguments)
    return [
        f"token={part}"
        if _is_value(flag, part)
        else f"token={part[2:]}"
        if attached and _ATTACHED.match(part)
        else part
        for flag, part in zip(before, arguments, strict=False)
    ]


def _attaches(arguments: Sequence[str]) -> bool:
    """Whether one of them is a program that takes a password right after ``-p``."""
    return any(re.fullmatch(_CLIENTS, part.rpartition("/")[2]) for part in arguments)


def _is_value(flag: str, part: str) -> bool:
    return _FLAG.fullmatch(flag) is not None or (flag in ("-u", "--user") and ":" in part)


def _host_alone(found: "re.Match[str]") -> str:
    scheme, slashes, rest = found.groups()
    end = _END.search(rest)
    tail = end.group() if end else ""
    rest = rest[: len(rest) - len(tail)]
    if not rest:
        return found.group()
    if scheme.lower() not in _WEB or slashes.startswith("%"):
        return f"{scheme}{slashes}{HIDDEN}{tail}"
    authority, path = re.split(r"(?=[/?#\\])", rest, maxsplit=1) if re.search(r"[/?#\\]", rest) else (rest, "")
    user, at, host = authority.rpartition("@")
    if not _HOST.fullmatch(host):  # it may be a password that contains a slash
        return f"{scheme}{slashes}{HIDDEN}{tail}"
    shown = HIDDEN + at if user else ""
    return f"{scheme}{slashes}{shown}{host}" + (f"/{HIDDEN}" if path.strip("/\\") else path) + tail


def _hidden_parts(given: str) -> list[str]:
    """What `mask` would hide of an address or an argument."""
    parts: list[str] = []
    for found in _ADDRESS.finditer(given):
        rest = found.group(3)
        authority, _, path = rest.partition("/")
        parts += [path, "/" + path, *filter(_MADE_UP.search, re.split(r"[/?#&=]", path))]
        server, *query = re.split(r"[/?#\\]", rest, maxsplit=1)
        parts += filter(_MADE_UP.search, re.split(r"[/?#&=]", "".join(query)))
        for user in (authority.rpartition("@")[0], server.rpartition("@")[0]):
            parts += user.split(":")
        if found.group(1).lower() not in _WEB:
            parts += [authority, rest]
    for pattern in _SECRETS:
        for hidden in pattern.finditer(given):
            parts.append(given[hidden.end("keep") : hidden.start("end")])
    return [part for part in parts if len(part) >= _LONG_ENOUGH]
