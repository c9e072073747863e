"""A secret of the machine's own cloud, read with the machine's own identity, by a worker that ends."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from costguard.cloud import hints
from costguard.cloud.access import CloudAccess
from costguard.cloud.api import CloudError, SecretStore, secret_store
from costguard.cloud.choose import Chosen, NobodyError, choose
from costguard.cloud.identify import identified, step
from costguard.masking import mask

LONGEST = 64 << 10
"""Characters; the clouds keep at most as many."""

ELSEWHERE = "name file:/PATH, env:NAME or credential:NAME instead"

_MARGIN_SECONDS = 0.5  # left for the plug-in itself to say what hung

_NOBODY = {
    "no_provider": ("no cloud plug-in recognises this machine", f"{ELSEWHERE}, or name the cloud in cloud.provider"),
    "cloud_ambiguous": ("several cloud plug-ins claim this machine", "set cloud.provider to the right one"),
    "sdk_missing": ("the library for this cloud is not installed", ""),
    "plugin_failed": ("the cloud plug-in failed", f"{hints.DOCTOR}, and report it"),
}
"""What it means for a secret that nobody speaks for this machine; the finding's own words are about a stop."""


def read(name: str, access: CloudAccess, within: float) -> str:
    """The text of a secret, in so many seconds. Raises CloudError, in which nothing of the text stands."""
    end = time.monotonic() + within
    logging.getLogger().addHandler(logging.NullHandler())  # without any, what an SDK warns of goes to standard error
    with _somebody():
        chosen, store = _store(name, access)
        with identified(chosen, end) as who:
            text = step(
                chosen,
                "secret_store.read",
                lambda: str(store.read(chosen.site, who, name, end - _MARGIN_SECONDS - time.monotonic())),
                end,
            )
    if len(text) > LONGEST:
        raise CloudError("refused", f"it has more than {LONGEST} characters")
    return text


def check(name: str, access: CloudAccess) -> None:
    """Raises CloudError where such a secret cannot be read here, as far as that is known without a question to the cloud."""
    with _somebody():
        _store(name, access)


@contextmanager
def _somebody() -> Iterator[None]:
    try:
        yield
    except NobodyError as error:
        words, hint = _NOBODY.get(error.finding.code, (error.finding.text, error.finding.hint))
        raise CloudError("refused", words, hint=hint or error.finding.hint) from None


def _store(name: str, access: CloudAccess) -> tuple[Chosen, SecretStore]:
    """Raises NobodyError and CloudError."""
    chosen = choose(access)
    store = secret_store(chosen.provider)
    if store is None:
        message = f"the plug-in for {chosen.provider.name} reads no secrets"
        raise CloudError("refused", message, hint=ELSEWHERE)
    if not store.valid(name):
        message = f"{mask(name)!r} is not the name of a secret in {chosen.provider.name}"
        raise CloudError("refused", message, hint=f"allowed: {store.form}")
    return chosen, store
