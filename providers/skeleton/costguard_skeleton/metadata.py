"""The metadata service: asked through the standard library, without proxies and redirects, within a second or two."""

import json
import os
from collections.abc import Mapping
from typing import Any

from costguard.answers import AnswerError
from costguard.cloud.api import CloudError, Site
from costguard.cloud.errors import no_answer, unreachable
from costguard.cloud.plain import Connection, address

from . import errors

TRY_SECONDS = 2.0
_LARGEST_BYTES = 65536  # bytes of an answer
VARIABLE = "COSTGUARD_SKELETON_METADATA_ENDPOINT"


def tags(site: Site) -> Mapping[str, str]:
    """Tags of this machine. Raises CloudError."""
    return {str(name): str(value) for name, value in ask(site, "/tags").items()}


def ask(site: Site, path: str) -> dict[str, Any]:
    """One question. Raises CloudError."""
    given = site.settings.get("metadata_endpoint") or site.environ.get(VARIABLE)
    return call("GET", f"{given or 'http://metadata.cloud.example'}{path}", {"Metadata": "yes"}, TRY_SECONDS)


def call(method: str, url: str, headers: Mapping[str, str], within: float) -> dict[str, Any]:
    """One request with one limit for the whole of it; the API of this cloud speaks the same way."""
    place, mark, query = url.partition("?")
    doing, where = f"{method} {os.path.basename(place)}", address(place)
    if where is None:
        raise unreachable(errors.CLOUD, doing, "this is not the address of a metadata service")
    with Connection(where[0], where[1], max(0.1, within)) as connection:
        try:
            connection.connect()
        except OSError as error:
            raise unreachable(errors.CLOUD, doing, error) from error
        try:
            answer = connection.ask(method, where[2] + mark + query, headers, _LARGEST_BYTES)
        except (OSError, AnswerError) as error:
            raise no_answer(doing, error) from error
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if answer.status != 200:
        raise errors.answered(doing, answer.status, own=isinstance(found, dict))
    if not isinstance(found, dict):
        raise errors.garbage(doing)
    return found


def text(found: Mapping[str, Any], name: str) -> str:
    """A field that has to be there. Raises CloudError."""
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise CloudError(
            "internal", f"the metadata service does not say its {name}", code="garbage", hint="run `costguard doctor`"
        )
    return value
