"""What the contracts of both kinds of plug-ins ask: the parts of an interface, own settings, and a cheap import."""

import subprocess
import sys
from collections.abc import Collection, Iterable

from costguard.cloud.api import settings_of


def has_every_part(plug_in: object, interface: type, name: str) -> None:
    """It has every part of the interface, and a name for people."""
    parts = [part for part in vars(interface) if not part.startswith("_") and part != "name"]
    missing = [part for part in parts if not callable(getattr(plug_in, part, None))]
    assert not missing, f"it lacks {', '.join(missing)}"
    assert name.strip()


def has_sound_settings(plug_in: object, taken: Collection[str], section: str) -> None:
    """Its own options fit into the configuration beside those ``taken`` in this section, explain themselves, and hold no secret."""
    own, given = settings_of(plug_in), getattr(plug_in, "settings", ())
    assert isinstance(given, tuple), "`settings` is a tuple"
    assert own == given, "each of `settings` is a Setting"
    names = [one.name for one in own]
    assert len(set(names)) == len(names), "it names a setting twice"
    for one in own:
        assert one.name.isidentifier(), f"{one.name!r} cannot be written in a file"
        assert one.name == one.name.lower(), f"{one.name!r} cannot be written in an environment variable"
        assert one.name not in taken, f"[{section}] has {one.name!r} already, for every plug-in"
        assert len(one.description) > 20, f"{one.name}: say what it is for"
        assert one.allowed, f"{one.name}: say what is allowed"
        assert isinstance(one.default, bool) is isinstance(one.example, bool) is (one.kind == "switch"), one.name
        assert (one.kind == "choice") is bool(one.choices), one.name
        assert not one.choices or {one.default, one.example} <= set(one.choices), f"{one.name}: {one.choices}"
        secret = any(word in one.name for word in ("key", "token", "secret", "password"))
        assert not secret or one.kind == "file", f"{one.name}: a secret stands in a file, not in the configuration"


def imports_little(module: str, beside: str, heavy: Iterable[str]) -> None:
    """Beyond what the module ``beside`` imports, nothing of others, and no ``heavy`` part of the standard library."""
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}; import {beside}; before = set(sys.modules); import {module};"
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before};"
        f"print(sorted(roots - set(sys.stdlib_module_names) - {{'costguard', {module.partition('.')[0]!r}}}"
        f" | roots & {set(heavy)!r}))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]", f"importing {module} imports {done.stdout.strip()}"
