"""The instance metadata service, version 2 only, on the standard library.

Sources: EC2 user guide "Use the Instance Metadata Service" (token by PUT, time to live 1 to 21600 s, 401 for a
missing or expired token, 403 when switched off or when X-Forwarded-For shows a proxy, 404 for an absent
key) and "Instance metadata options" (the hop limit: the answer to PUT dies on the way into a container).

Proxies of the environment are never used and redirects never followed: `costguard.cloud.plain` knows neither.
"""

import functools
import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from costguard.answers import AnswerError
from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site
from costguard.cloud.plain import Connection, SlowError, address, quoted
from costguard_aws.firmware import recognises

DEFAULT = {"ipv4": "http://169.254.169.254", "ipv6": "http://[fd00:ec2::254]"}
TOKEN_SECONDS = 21600
"""The longest life that the service grants a token."""

_TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
_TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - the name of a header
_LONGEST_BYTES = 262_144  # bytes of an answer; real ones have a few kilobytes
_WHOLE = 2.0  # times the time-out of one step in which a whole answer must be there, however it drips
_PAUSE_SECONDS = 0.1  # seconds before the first repetition, doubled each time
_BUSY_TRIES = 4  # tries when the service says that it is busy
_SPARE_SECONDS = 60.0  # seconds before its end at which a token is no longer used
_OPTIONS = "aws ec2 modify-instance-metadata-options --instance-id …"


class Answer(NamedTuple):
    """One answer: its status, its body, and whether a proxy left its mark on it."""

    status: int
    body: bytes
    proxied: bool


def of(site: Site) -> "Imds":
    """The client for a site; one per endpoint, so that a poll needs no new token. Raises CloudError when not wanted."""
    if site.settings.get("metadata") == "never":
        raise _off('cloud.metadata = "never"', 'set cloud.metadata = "auto"')
    endpoint = str(site.settings.get("metadata_endpoint") or "")
    if not endpoint and site.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise _off("AWS_EC2_METADATA_DISABLED=true in the environment", "unset it for costguard's service")
    mode = site.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "").lower()
    endpoint = endpoint or site.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or DEFAULT.get(mode, DEFAULT["ipv4"])
    timeout = _number(site.environ, "AWS_METADATA_SERVICE_TIMEOUT", 1.0)
    return _client(endpoint, timeout, int(_number(site.environ, "AWS_METADATA_SERVICE_NUM_ATTEMPTS", 2)))


def wanted(site: Site) -> bool:
    """Whether asking makes sense without having been told to: not on another cloud, a laptop, or when switched off."""
    named = site.settings.get("metadata_endpoint") or site.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    told = named or site.settings.get("provider", "auto") != "auto"
    if not told and not recognises(site.dmi):
        return False
    try:
        of(site)
    except CloudError:
        return False
    return True


class Imds:
    """A client that keeps its token. ``timeout``: seconds for one step of one try; ``tries``: per question."""

    def __init__(self, endpoint: str, timeout: float = 1.0, tries: int = 2) -> None:
        where = address(endpoint)
        if where is None:
            message, hint = f"{endpoint!r} is not the address of a metadata service", hints.ADDRESS
            raise CloudError("unreachable", message, code="imds_endpoint", hint=hint)
        self.endpoint = endpoint
        self._host, self._port, self._base = where
        self._timeout = timeout
        self._tries = max(1, tries)
        self._token = ""
        self._until = 0.0

    def text(self, path: str) -> str | None:
        """What stands at a path below ``/latest/``; None when nothing does. Raises CloudError."""
        answer = self._get(path, fresh=False)
        if answer.status == 401:  # the token ended early: the machine was suspended, or the service restarted
            answer = self._get(path, fresh=True)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self._refusal(answer, path)
        try:
            return answer.body.decode()
        except UnicodeDecodeError:
            raise self._garbage(path, "not text") from None

    def json(self, path: str) -> object:
        """The JSON value at a path; None when there is none. Raises CloudError."""
        text = self.text(path)
        if text is None:
            return None
        try:
            value: object = json.loads(text)
        except ValueError:
            raise self._garbage(path, "not JSON") from None
        return value

    def tags(self) -> dict[str, str]:
        """The instance tags; empty while the instance does not show them in its metadata (the default)."""
        listed = self.text("meta-data/tags/instance") or ""
        found = {key: self.text(f"meta-data/tags/instance/{quoted(key)}") for key in listed.splitlines() if key}
        return {key: value for key, value in found.items() if value is not None}  # None: removed in between

    def _get(self, path: str, *, fresh: bool) -> Answer:
        if fresh or time.monotonic() >= self._until:
            self._renew()
        return self._ask("GET", f"/latest/{path}", {_TOKEN_HEADER: self._token})

    def _renew(self) -> None:
        answer = self._ask("PUT", "/latest/api/token", {_TTL_HEADER: str(TOKEN_SECONDS), "Content-Length": "0"})
        if answer.status != 200:
            raise self._refusal(answer, "api/token")
        token = answer.body.decode("ascii", "replace").strip()
        if token.split() != [token] or not token.isprintable() or len(token) > 512:
            raise self._garbage("api/token", "not a token")
        self._token, self._until = token, time.monotonic() + TOKEN_SECONDS - _SPARE_SECONDS

    def _ask(self, method: str, target: str, headers: Mapping[str, str]) -> Answer:
        """One question, repeated after silence a few times, and a little more patiently while the service is busy."""
        pause = _PAUSE_SECONDS
        for attempt in range(1, max(self._tries, _BUSY_TRIES) + 1):
            try:
                answer = self._once(method, target, headers)
            except CloudError:
                if attempt >= self._tries:
                    raise
            else:
                if answer.status != 429 and answer.status < 500:
                    return answer
                if attempt >= _BUSY_TRIES:
                    raise self._busy(answer)
            time.sleep(pause)
            pause *= 2
        raise AssertionError  # the last try has returned or raised

    def _once(self, method: str, target: str, headers: Mapping[str, str]) -> Answer:
        try:
            with Connection(self._host, self._port, self._timeout * _WHOLE, self._timeout) as connection:
                self._connect(connection)
                found = connection.ask(method, self._base + target, headers, _LONGEST_BYTES)
        except SlowError:
            whole = f"no complete answer within {self._timeout * _WHOLE:g} s"
            message = f"the metadata service at {self.endpoint} is too slow: {whole}"
            raise CloudError("unreachable", message, code="imds_slow", hint=hints.DOCTOR) from None
        except TimeoutError:
            raise self._silent(method) from None
        except OSError as error:
            raise self._broken(type(error).__name__) from None
        except AnswerError as error:
            raise self._garbage(target, "too long") if error.long else self._broken(f"it {error}") from None
        proxied = bool(found.field("Via") or found.field("Proxy-Authenticate"))
        return Answer(found.status, found.body, proxied)

    def _connect(self, connection: Connection) -> None:
        """Raises CloudError; a time-out here is another matter than one after the question."""
        try:
            connection.connect()
        except TimeoutError:
            message = f"the connection to the metadata service at {self.endpoint} timed out"
            hint = f"look for a firewall rule or a route that drops it, {hints.THEN_DOCTOR}"
            raise CloudError("unreachable", message, code="imds_no_route", hint=hint) from None
        except OSError as error:
            message = f"no metadata service at {self.endpoint}: {error.strerror or type(error).__name__}"
            hint = f"check cloud.metadata_endpoint and the routes, {hints.THEN_DOCTOR}"
            raise CloudError("unreachable", message, code="imds_absent", hint=hint) from None

    def _broken(self, why: str) -> CloudError:
        message = f"the metadata service at {self.endpoint} broke off its answer ({why})"
        return CloudError("unreachable", message, code="imds_broken", hint=hints.DOCTOR)

    def _silent(self, method: str) -> CloudError:
        if method == "PUT":
            message = (
                "the metadata service never answered the request for a token: the hop limit of this instance is probably 1, "
                "too low for a container with its own network"
            )
            hint = f"run costguard on the host's network, or `{_OPTIONS} --http-put-response-hop-limit 2`, {hints.THEN_DOCTOR}"
            return CloudError("unreachable", message, code="imds_hop_limit", hint=hint)
        message = f"the metadata service at {self.endpoint} gave no answer within {self._timeout:g} s"
        return CloudError("unreachable", message, code="imds_no_answer", hint=hints.DOCTOR)

    def _refusal(self, answer: Answer, path: str) -> CloudError:
        status = answer.status
        if answer.proxied:
            message = f"a proxy stands between costguard and the metadata service (answer {status} to {path})"
            hint = f"exempt the metadata address from the transparent proxy, {hints.THEN_DOCTOR}"
            return CloudError("unreachable", message, code="imds_proxy", hint=hint)
        if status == 403:
            message = "answer 403: it is switched off for this instance, or a proxy added X-Forwarded-For"
            return _off(message, f"`{_OPTIONS} --http-endpoint enabled --http-tokens required`, {hints.THEN_DOCTOR}")
        if status == 401:
            message = "the metadata service rejects the token that it has just given (401)"
            return CloudError("internal", message, code="imds_token", hint=hints.DOCTOR)
        return self._garbage(path, f"unexpected status {status}")

    def _garbage(self, path: str, why: str) -> CloudError:
        message = f"the answer of {self.endpoint} for {path} is not from the EC2 metadata service: {why}"
        return CloudError("internal", message, code="imds_garbage", hint=hints.METADATA)

    def _busy(self, answer: Answer) -> CloudError:
        if answer.status in {429, 503}:
            message = f"the metadata service throttles this machine ({answer.status}): a program on it asks too often"
            return CloudError("throttled", message, code="imds_throttled", hint="find the program that polls it")
        message = f"the metadata service has an internal error ({answer.status})"
        return CloudError("internal", message, code="imds_error", hint=hints.DOCTOR)


@functools.cache
def _client(endpoint: str, timeout: float, tries: int) -> Imds:
    return Imds(endpoint, timeout, tries)


def _off(why: str, hint: str) -> CloudError:
    return CloudError("unreachable", f"the metadata service is switched off: {why}", code="imds_off", hint=hint)


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    """A positive number of the environment, at most 10; nonsense counts as absent, as the SDK's users expect."""
    try:
        value = float(environ.get(name, default))
    except ValueError:
        return default
    return min(value, 10.0) if value > 0 else default
