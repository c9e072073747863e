"""Hide what looks like a secret in text that people will read, paste and send."""

import re
from collections.abc import Sequence

_NAMES = r"(?:token|secret|password|passwd|api[_-]?key|access[_-]?key|signature)"
_SECRETS = (
    re.compile(r"(?P<keep>\w[\w+.-]*://)[^/\s@]+(?P<end>@)"),
    re.compile(r"(?P<keep>\bauthorization:\s*)\S+(\s+\S+)?(?P<end>)", re.IGNORECASE),
    re.compile(rf"(?P<keep>\b[\w-]*{_NAMES}[\w-]*[\"']?\s*[=:]\s*|\bsig=)[^\s&]+(?P<end>)", re.IGNORECASE),
)
_FLAG = re.compile(rf"(?i)--?[\w-]*{_NAMES}")


def mask(text: str) -> str:
    """Hide user information of URLs, authorisation headers, ``token=…`` and the like."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\g<keep>***\g<end>", text)
    return text


def mask_all(arguments: Sequence[str]) -> list[str]:
    """`mask` for the arguments of a program: also hides the one after a flag such as ``--token``."""
    before = ("", *arguments)
    return ["***" if _FLAG.fullmatch(flag) else mask(part) for flag, part in zip(before, arguments, strict=False)]
