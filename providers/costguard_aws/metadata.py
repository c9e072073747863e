"""The instance metadata service, version 2 only, on the standard library.

Sources: EC2 user guide "Use the Instance Metadata Service" (token by PUT, time to live 1 to 21600 s, 401 for a
missing or expired token, 403 when switched off or when X-Forwarded-For shows a proxy, 404 for an absent
key) and "Instance metadata options" (the hop limit: the answer to PUT dies on the way into a container).

Proxies of the environment are never used and redirects never followed: `http.client` knows neither.
"""

import functools
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from costguard.cloud.api import CloudError, Site
from costguard_aws.firmware import recognises

DEFAULT = {"ipv4": "http://169.254.169.254", "ipv6": "http://[fd00:ec2::254]"}
TOKEN_SECONDS = 21600
"""The longest life that the service grants a token."""

_TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
_TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - the name of a header
_LONGEST = 262_144  # bytes of an answer; real ones have a few kilobytes
_WHOLE = 2.0  # times the time-out of one step in which a whole answer must be there, however it drips
_PAUSE = 0.1  # seconds before the first repetition, doubled each time
_BUSY_TRIES = 4  # tries when the service says that it is busy
_SPARE = 60.0  # seconds before its end at which a token is no longer used
_OPTIONS = "aws ec2 modify-instance-metadata-options --instance-id …"
_DOCTOR = "then run `costguard doctor`"


class Answer(NamedTuple):
    """One answer: its status, its body, and whether a proxy left its mark on it."""

    status: int
    body: bytes
    proxied: bool


def of(site: Site) -> "Imds":
    """The client for a site; one per endpoint, so that a poll needs no new token. Raises CloudError when not wanted."""
    if site.settings.get("metadata") == "never":
        raise _off('cloud.metadata = "never" in costguard\'s configuration', 'set cloud.metadata = "auto"')
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
        parts = urlsplit(endpoint)
        if parts.scheme != "http" or not parts.hostname:
            words = f"{endpoint!r} is no address of a metadata service"
            raise CloudError("unreachable", words, code="imds_endpoint", hint="write it as http://HOST[:PORT]")
        self.endpoint = endpoint
        self._host = parts.hostname
        self._port = parts.port or 80
        self._base = parts.path.rstrip("/")
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
            raise self._garbage(path, "it is not text") from None

    def json(self, path: str) -> object:
        """The JSON value at a path; None when there is none. Raises CloudError."""
        text = self.text(path)
        if text is None:
            return None
        try:
            value: object = json.loads(text)
        except ValueError:
            raise self._garbage(path, "it is not JSON") from None
        return value

    def tags(self) -> dict[str, str]:
        """The instance tags; empty while the instance does not show them in its metadata (the default)."""
        listed = self.text("meta-data/tags/instance") or ""
        found = {key: self.text(f"meta-data/tags/instance/{quote(key, safe='')}") for key in listed.splitlines() if key}
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
            raise self._garbage("api/token", "it is no token")
        self._token, self._until = token, time.monotonic() + TOKEN_SECONDS - _SPARE

    def _ask(self, method: str, target: str, headers: Mapping[str, str]) -> Answer:
        """One question, repeated after silence a few times, and a little more patiently while the service is busy."""
        pause = _PAUSE
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
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            self._connect(connection)
            with _limited(connection.sock, self._timeout * _WHOLE) as late:
                connection.request(method, self._base + target, headers=dict(headers))
                with connection.getresponse() as response:
                    body = response.read(_LONGEST + 1)
                    rest = response.length  # `read` with a limit does not say when the answer was cut short
            proxied = bool(response.getheader("Via") or response.getheader("Proxy-Authenticate"))
        except TimeoutError:
            raise self._silent(method) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(type(error).__name__, late=late.is_set()) from None
        finally:
            connection.close()
        if len(body) > _LONGEST:
            raise self._garbage(target, "it is far too long")
        if rest or late.is_set():
            raise self._broken("it is cut short", late=late.is_set())
        return Answer(response.status, body, proxied)

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        """Raises CloudError; a time-out here is another matter than one after the question."""
        try:
            connection.connect()
        except TimeoutError:
            words = f"no way to the metadata service at {self.endpoint}: the connection timed out"
            hint = "look for a firewall rule or a route that drops it, " + _DOCTOR
            raise CloudError("unreachable", words, code="imds_no_route", hint=hint) from None
        except OSError as error:
            words = f"no metadata service at {self.endpoint}: {error.strerror or type(error).__name__}"
            hint = "check cloud.metadata_endpoint and the routes, " + _DOCTOR
            raise CloudError("unreachable", words, code="imds_absent", hint=hint) from None

    def _broken(self, why: str, *, late: bool) -> CloudError:
        if late:
            words = f"the metadata service at {self.endpoint} is too slow: no whole answer within {self._timeout * _WHOLE:g} s"
            return CloudError("unreachable", words, code="imds_slow", hint="run `costguard doctor` again")
        words = f"the metadata service at {self.endpoint} broke off its answer ({why})"
        return CloudError("unreachable", words, code="imds_broken", hint="run `costguard doctor` again")

    def _silent(self, method: str) -> CloudError:
        if method == "PUT":
            words = (
                "the metadata service took the request for a token, but its answer never came: the hop limit of "
                "this instance is probably 1, which ends before a container with a network of its own"
            )
            hint = f"run costguard on the host's network, or `{_OPTIONS} --http-put-response-hop-limit 2`, {_DOCTOR}"
            return CloudError("unreachable", words, code="imds_hop_limit", hint=hint)
        words = f"the metadata service at {self.endpoint} gave no answer within {self._timeout:g} s"
        return CloudError("unreachable", words, code="imds_no_answer", hint="run `costguard doctor` again")

    def _refusal(self, answer: Answer, path: str) -> CloudError:
        status = answer.status
        if answer.proxied:
            words = f"a proxy stands between costguard and the metadata service (answer {status} to {path})"
            hint = "exempt the metadata address from the transparent proxy, " + _DOCTOR
            return CloudError("unreachable", words, code="imds_proxy", hint=hint)
        if status == 403:
            words = "answer 403: it is switched off for this instance, or a proxy added X-Forwarded-For"
            return _off(words, f"`{_OPTIONS} --http-endpoint enabled --http-tokens required`, {_DOCTOR}")
        if status == 401:
            words = "the metadata service does not accept the token that it has just given (401)"
            return CloudError("internal", words, code="imds_token", hint="run `costguard doctor` again")
        return self._garbage(path, f"status {status} is none that the service gives")

    def _garbage(self, path: str, why: str) -> CloudError:
        words = f"what answers at {self.endpoint} for {path} is not the EC2 metadata service: {why}"
        hint = "check cloud.metadata_endpoint and what listens there, " + _DOCTOR
        return CloudError("internal", words, code="imds_garbage", hint=hint)

    def _busy(self, answer: Answer) -> CloudError:
        if answer.status in {429, 503}:
            words = f"the metadata service throttles this machine ({answer.status}): something on it asks too often"
            return CloudError("throttled", words, code="imds_throttled", hint="find the program that polls it")
        words = f"the metadata service is in trouble (answer {answer.status})"
        return CloudError("internal", words, code="imds_error", hint="run `costguard doctor` again")


@contextmanager
def _limited(connection: socket.socket, seconds: float) -> Iterator[threading.Event]:
    """End the connection after so long: a time-out of the socket is for one piece, and pieces may drip for ever."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


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
