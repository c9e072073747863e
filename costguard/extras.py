"""How to add what an extra brings: by the names of its libraries, for costguard's own name on an index may be anybody's."""

import re
import sys

NAME = "costguard-agent"
PICTURE = "matplotlib>=3.9"
FAST = "pyarrow>=17"
STRESS = "torch>=2.2"
_OF_EXTRA = re.compile(r"""^(?P<library>[^;]+);.*\bextra\s*==\s*['"](?P<extra>[\w-]+)['"]""")


def libraries(extra: str) -> list[str]:
    """The requirements of an extra of this distribution; none where it has no such extra."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        found = [match for one in requires(NAME) or [] if (match := _OF_EXTRA.match(one))]
    except PackageNotFoundError:
        return []
    return [match["library"].strip() for match in found if match["extra"] == extra]


def command(extra: str) -> str:
    """What adds the library of a plug-in, by the name of its extra."""
    if needed := libraries(extra):
        return install(*needed)
    return f"install the library that the plug-in {extra!r} needs, in costguard's environment ({sys.prefix})"


def install(*needed: str) -> str:
    """What installs these beside the costguard that runs."""
    import shlex
    from importlib.util import find_spec

    python = sys.executable or "python3"
    installer = [python, "-m", "pip", "install"] if find_spec("pip") else ["uv", "pip", "install", "--python", python]
    return shlex.join([*installer, *needed])
