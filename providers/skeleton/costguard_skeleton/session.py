"""The API, logged in. The place for an SDK: load it here, switch its own retries off, and limit each call as a whole."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from costguard.cloud.api import Identity, Site
from costguard.cloud.errors import no_answer
from costguard.cloud.retry import LateError, bounded, until

from . import errors, metadata

CALL_SECONDS = 10.0
"""Seconds for one call, however its answer drips."""


class Session:
    """Calls about one machine. Each raises CloudError and nothing else."""

    def __init__(self, site: Site, instance: str, token: str) -> None:
        self._base = f"{site.settings.get('api_endpoint') or 'https://api.cloud.example'}/machines/{instance}"
        self._headers = {"Authorization": f"Bearer {token}"}

    def machine(self, within: float = CALL_SECONDS) -> dict[str, Any]:
        """The machine as the API shows it. An answer without its state would look like another machine."""
        found = self._call("GET", "", within)
        if not found.get("status"):
            raise errors.garbage("GET machine")
        return found

    def look(self, end: float) -> dict[str, Any]:
        """The same, asked again after what passes, until a moment of the monotonic clock."""
        return until(end, lambda left: self.machine(min(left, CALL_SECONDS)), tries=3)

    def act(self, verb: str, attempt: str, within: float) -> str:
        """The request, once, under the attempt's own name; its id as proof."""
        found = self._call("POST", f"/{verb}?attempt={quote(attempt)}", within)
        if not found.get("request"):
            raise errors.garbage(f"POST {verb}")
        return str(found["request"])

    def tag(self, tags: Mapping[str, str], within: float) -> None:
        """One request for each: others stay as they are."""
        end = time.monotonic() + within
        for name, value in tags.items():
            self._call("PUT", f"/tags/{quote(name)}?value={quote(value)}", end - time.monotonic())

    def _call(self, method: str, path: str, within: float) -> dict[str, Any]:
        limit = min(within, CALL_SECONDS)
        try:
            return bounded(lambda: metadata.call(method, self._base + path, self._headers, limit), limit)
        except LateError as error:
            raise no_answer(f"{method} machine", error) from error


def login(site: Site, who: Identity) -> Session:
    """With a token of the metadata service. Raises CloudError."""
    return Session(site, who.instance, metadata.text(metadata.ask(site, "/token"), "token"))
