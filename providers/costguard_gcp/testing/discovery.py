"""The API's own description: what may be asked, and what an answer may look like.

Source: the discovery document ``compute.v1.json`` that google-api-python-client carries (a test dependency).
"""

import functools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_ALIAS = "$alt"  # the SDK's way to write the system parameter ``alt``
_WHOLE = {"int32", "uint32", "int64", "uint64"}


class NotInDiscoveryError(AssertionError):
    """The stand-in was about to answer what the API would not."""


class Route(NamedTuple):
    """A method of the API and the values of its path."""

    id: str
    path: Mapping[str, str]
    description: Mapping[str, Any]


class Discovery:
    """The document, and checks against it. Each check gives the words of what is wrong, empty when nothing is."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._schemas = document["schemas"]
        self._everywhere = document["parameters"]
        root = "/" + document["servicePath"]
        self._methods = [(method, _pattern(root, method)) for method in _methods(document["resources"])]

    def route(self, verb: str, path: str) -> Route | None:
        """The method that a request means; None when the API has none such."""
        for method, pattern in self._methods:
            match = pattern.fullmatch(path) if method["httpMethod"] == verb else None
            if match:
                return Route(method["id"], match.groupdict(), method)
        return None

    def request_trouble(self, route: Route, query: Mapping[str, str], body: bytes) -> str:
        """Whether the API would take these parameters and this body."""
        known = route.description["parameters"]
        for name, value in query.items():
            parameter = (
                known.get(name) if known.get(name, {}).get("location") == "query" else self._everywhere.get(name)
            )
            if parameter is None and name != _ALIAS:
                return f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.'
            if parameter and parameter["type"] == "boolean" and value not in {"true", "false"}:
                return f"Invalid value for parameter {name}: {value}"
        schema = route.description.get("request")
        if schema is None:
            return "a body was sent, and this method has none" if body.strip() else ""
        try:
            self._check(schema, json.loads(body), "body")
        except (NotInDiscoveryError, ValueError) as error:
            return f"Invalid value at {error}"
        return ""

    def check_answer(self, route: Route, answer: object) -> None:
        """Raises NotInDiscoveryError unless the document allows the answer."""
        self._check(route.description["response"], answer, route.id)

    def _check(self, schema: Mapping[str, Any], value: Any, where: str) -> None:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"]]
        kind = schema.get("type")
        if kind == "object":
            self._check_object(schema, value, where)
        elif kind == "array":
            _demand(isinstance(value, list), where, "a list")
            for index, one in enumerate(value):
                self._check(schema["items"], one, f"{where}[{index}]")
        elif kind == "string":
            _demand(isinstance(value, str), where, "a string")
            _demand(
                schema.get("format") not in _WHOLE or value.lstrip("-").isdecimal(), where, "a whole number as text"
            )
            _demand("enum" not in schema or value in schema["enum"], where, f"one of {schema.get('enum')}, not {value}")
        elif kind == "integer":
            _demand(isinstance(value, int) and not isinstance(value, bool), where, "a whole number")
        elif kind == "boolean":
            _demand(isinstance(value, bool), where, "true or false")
        elif kind == "number":
            _demand(isinstance(value, int | float), where, "a number")

    def _check_object(self, schema: Mapping[str, Any], value: Any, where: str) -> None:
        _demand(isinstance(value, dict), where, "an object")
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, inner in value.items():
            rule = known.get(key, others)
            _demand(rule is not None, f"{where}.{key}", "a field that the API has")
            self._check(rule, inner, f"{where}.{key}")


@functools.cache
def compute_v1() -> Discovery:
    """The document of the Compute Engine API, read once for a process."""
    import googleapiclient

    package = pathlib.Path(googleapiclient.__file__).parent
    path = package / "discovery_cache/documents/compute.v1.json"
    return Discovery(json.loads(path.read_text(encoding="utf-8")))


def _methods(resources: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in resources.values():
        yield from resource.get("methods", {}).values()
        yield from _methods(resource.get("resources", {}))


def _pattern(root: str, method: Mapping[str, Any]) -> re.Pattern[str]:
    """The path with each parameter as its own pattern."""
    text = re.escape(root + method["flatPath"])
    for name, parameter in method["parameters"].items():
        if parameter["location"] == "path":
            inner = parameter.get("pattern", "[^/]+")
            text = text.replace(re.escape("{" + name + "}"), f"(?P<{name}>{inner})")
    return re.compile(text)


def _demand(met: bool, where: str, what: str) -> None:
    if not met:
        message = f"{where}: expected {what}"
        raise NotInDiscoveryError(message)
