"""A wheel of another version of costguard, made of the present one."""

import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

NEWER = "9.0.0"
FORMAT = 2
MIGRATING = {
    "costguard/host/files.py": {
        "\nVERSION = 1\n": f"\nVERSION = {FORMAT}\n",
        'envelope["version"] != VERSION': 'envelope["version"] not in (1, VERSION)',
    },
    "costguard/history/store.py": {
        "\nVERSION = 1\n": f"\nVERSION = {FORMAT}\n",
        "elif version != VERSION:\n": 'elif version == 1:\n            database.execute(f"PRAGMA user_version = {VERSION}")\n        elif version != VERSION:\n',
    },
}
"""What a later version may do: it reads the files of the one before, and writes them in a format that that one does not know."""


def another(wheel: Path, version: str, changes: Mapping[str, Mapping[str, str]]) -> Path:
    """Make it beside a wheel; ``changes``: texts of files, each of which stands there once."""
    name, old, *tags = wheel.stem.split("-")
    info, now = f"{name}-{old}.dist-info", f"{name}-{version}.dist-info"
    numbers = {"costguard/__init__.py": {f'__version__ = "{old}"': f'__version__ = "{version}"'}}
    edits = {**changes, **numbers, f"{now}/METADATA": {f"\nVersion: {old}\n": f"\nVersion: {version}\n"}}
    made = wheel.with_name("-".join((name, version, *tags)) + ".whl")
    rows = []
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            path, body = entry.filename.replace(info, now), before.read(entry)
            if path == f"{now}/RECORD":
                continue
            for there, instead in edits.pop(path, {}).items():
                assert body.count(there.encode()) == 1, f"{there!r} in {path}"
                body = body.replace(there.encode(), instead.encode())
            after.writestr(path, body)
            digest = urlsafe_b64encode(sha256(body).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(body)}\n")
        after.writestr(f"{now}/RECORD", "".join(rows) + f"{now}/RECORD,,\n")
    assert not edits, f"not in {wheel}: {', '.join(edits)}"
    return made
