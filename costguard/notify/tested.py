"""Remember which channels a person has tested, when, and with which settings and addresses.

An address is a secret, and may be short, so only a salted, slow digest of the addresses is kept, in a file of mode 600.
"""

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from costguard.process.wire import MalformedError, build, plain

FILE = "channels-tested.json"
LONGEST_BYTES = 1 << 20
SALT_BYTES = 16
_SCRYPT_ROUNDS, _SCRYPT_BLOCK, _SCRYPT_LANES = 1 << 14, 8, 1
"""The cost of one guess: 16 MiB and some 50 ms. Source: RFC 7914, 2, and the parameters it recommends for logins."""


class LastTest(NamedTuple):
    """The last test of a channel, as the file has it: its date, whether it arrived, with which settings, by their digest.

    ``salt``, ``addresses``: what is kept of its addresses; empty for nothing.
    """

    at: float
    ok: bool
    settings: str
    salt: str = ""
    addresses: str = ""

    def same(self, urls: Sequence[str]) -> bool:
        """Whether these addresses are the ones that were tested."""
        return bool(self.addresses) and secrets.compare_digest(_slow_digest(urls, self.salt), self.addresses)


def digest(channel: Mapping[str, object]) -> str:
    """A digest of a channel's settings, by which a change since the last test shows. They contain no secret, only a reference to it."""
    return hashlib.sha256(json.dumps(dict(channel), sort_keys=True).encode()).hexdigest()[:16]


def _slow_digest(urls: Sequence[str], salt: str) -> str:
    """A digest of addresses, in any order, that nobody can guess them from."""
    text = "\n".join(sorted(urls)).encode()
    return hashlib.scrypt(text, salt=salt.encode(), n=_SCRYPT_ROUNDS, r=_SCRYPT_BLOCK, p=_SCRYPT_LANES).hex()


def keep(
    state: str,
    settings: Mapping[str, Mapping[str, object]],
    results: Mapping[str, bool],
    now: float,
    addresses: Mapping[str, Sequence[str]] | None = None,
) -> bool:
    """Remember what a test came to; ``now`` is a date, ``addresses`` are those it went to, as far as they are known.

    False when it cannot be written down.
    """
    path = os.path.join(state, FILE)
    try:
        found = known(state)
        for name, fine in results.items():
            found[name] = LastTest(now, fine, digest(settings[name]))
            if urls := (addresses or {}).get(name):
                salt = secrets.token_hex(SALT_BYTES)
                found[name] = found[name]._replace(salt=salt, addresses=_slow_digest(urls, salt))
        os.makedirs(state, mode=0o700, exist_ok=True)
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)  # also where a test that was killed left the file
            json.dump({name: plain(test) for name, test in found.items()}, file)
        os.replace(f"{path}.new", path)
    except OSError:
        with suppress(OSError):
            os.unlink(f"{path}.new")
        return False
    return True


def known(state: str) -> dict[str, LastTest]:
    """The last test of every channel that was tested. Raises PermissionError if this user may not read the file."""
    try:
        descriptor = os.open(os.path.join(state, FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            found = json.loads(file.read(LONGEST_BYTES)) if stat.S_ISREG(os.fstat(descriptor).st_mode) else {}
    except PermissionError:
        raise
    except (OSError, ValueError):
        return {}
    tests = {}
    for name, one in found.items() if isinstance(found, dict) else ():
        with suppress(MalformedError):
            tests[name] = build(LastTest, one)
    return tests


def last(state: str, name: str, channel: Mapping[str, object]) -> LastTest | None:
    """The last test of this channel with these settings; None where it was never tested. Raises PermissionError."""
    found = known(state).get(name)
    return found if found is not None and found.settings == digest(channel) else None
