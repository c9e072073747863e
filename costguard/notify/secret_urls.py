"""Read the addresses of a channel. They are secrets, so the configuration has only a reference to them.

`file:/PATH` (one address a line, readable by the agent alone), `env:NAME`, `credential:NAME` of systemd (`LoadCredential=`), or
`secret:NAME` of the machine's own cloud, which the worker alone reads: it costs the cloud's SDK.
"""

import os
import stat
from collections.abc import Mapping

from costguard.cloud.access import CloudAccess, HostPaths
from costguard.config.addresses import LONGEST_BYTES, address_lines
from costguard.config.values import REFERENCE
from costguard.files import open_file
from costguard.masking import mask
from costguard.notify.job import STORED
from costguard.notify.message import DeliveryError

STORED_SECONDS = 10.0
"""Seconds that the cloud's store may take at most."""


def read(reference: str, environment: Mapping[str, str]) -> list[str]:
    """The addresses, at least one; empty lines and those that begin with ``#`` are left out. Raises DeliveryError."""
    found = REFERENCE.fullmatch(reference)
    if found is None:
        raise DeliveryError("urls is not a reference", "allowed: file:/PATH, env:NAME, credential:NAME or secret:NAME")
    if found["env"]:
        text = environment.get(found["env"])
        if text is None:
            hint = "set it in the unit (systemctl edit costguard), or use credential:NAME"
            raise DeliveryError(f"the environment variable {found['env']} is not set for this process", hint)
    elif found["file"]:
        text = _content(found["file"], private=True)
    elif found["credential"]:
        text = _content(_credential(found["credential"], environment), private=False)  # systemd sees to that
    else:
        raise DeliveryError("the store of the cloud is not read here", "report this")
    return _addresses(reference, text)


def read_stored(reference: str, access: CloudAccess | None, within: float) -> list[str]:
    """The same for a reference to the cloud's store, within so many seconds. Raises DeliveryError."""
    from costguard.cloud import secret
    from costguard.cloud.api import CloudError

    name = reference.removeprefix(STORED)
    try:
        text = secret.read(name, access or CloudAccess((), {}, HostPaths()), min(STORED_SECONDS, within))
    except CloudError as error:
        raise DeliveryError(f"the secret {name} cannot be read: {mask(error.told)}", error.hint) from None
    return _addresses(f"the secret {name}", text)


def _addresses(source: str, text: str) -> list[str]:
    urls = address_lines(text)
    if not urls:
        raise DeliveryError(f"{source} contains no address", "write one apprise URL on each line")
    return urls


def _credential(name: str, environment: Mapping[str, str]) -> str:
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if not folder:
        words = f"systemd gave this process no credentials, so credential:{name} cannot be read"
        raise DeliveryError(words, f"add LoadCredential={name}:/PATH to the unit")
    return os.path.join(folder, name)


def _content(path: str, *, private: bool) -> str:
    """Read a file. Raises DeliveryError, also if it should be ``private`` and other users can read or change it."""
    try:
        with open_file(path) as file:
            state = os.fstat(file.fileno())
            if private and (state.st_uid not in {0, os.geteuid()} or stat.S_IMODE(state.st_mode) & 0o077):
                hint = (
                    f"sudo chown root {path}; sudo chmod 600 {path}; then create new addresses: these may have leaked"
                )
                raise DeliveryError(f"other users can read or change {path}", hint)
            return file.read(LONGEST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError as error:
        raise DeliveryError(f"there is no file {path}", "write one apprise URL on each line, with mode 600") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a file"
        raise DeliveryError(f"{path} cannot be read: {why}", "its owner is root or the agent's user") from error
