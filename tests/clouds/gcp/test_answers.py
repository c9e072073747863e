"""Answers of the API in their less usual forms: throttling under another name, waits, clocks."""

import datetime as dt
import gzip
import json
import pathlib
import time
from email.utils import format_datetime

import pytest
from google.auth.credentials import Credentials

from costguard.cloud.api import CloudError
from costguard.cloud.errors import FOREIGN
from costguard.cloud.http import LONGEST_BYTES
from costguard.cloud.retry import until
from costguard_gcp.places import Where
from costguard_gcp.session import Api
from costguard_gcp.testing import Group, Machine
from tests.clouds.gcp.cells import READS_GROUPS
from tests.clouds.gcp.conftest import world_of
from tests.clouds.wire import answer, speaking


class Known(Credentials):  # type: ignore[misc] # the SDK's classes have no types
    """A credential that asks nobody."""

    def refresh(self, request: object) -> None:
        self.token = "t"


def error_of(status: int, body: object, *headers: str) -> CloudError:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    said = answer(sent, *headers).replace(b"200 OK", b"%d X" % status)
    with speaking([said]) as url:
        api = Api(Where("p", "z", "n"), Known(), url)
        with pytest.raises(CloudError) as caught:
            api.instance()
    return caught.value


def body_of(code: int, reason: str, info: str = "") -> object:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": info, "domain": "googleapis.com"}]
    errors = [{"reason": reason, "message": "words", "domain": "global"}]
    return {"error": {"code": code, "message": "words", "errors": errors, "details": details if info else []}}


@pytest.mark.parametrize(
    ("reason", "info", "trouble", "code"),
    [
        ("rateLimitExceeded", "", "throttled", "rateLimitExceeded"),
        ("forbidden", "RATE_LIMIT_EXCEEDED", "throttled", "RATE_LIMIT_EXCEEDED"),
        ("forbidden", "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "denied", "scopes_missing"),
        ("forbidden", "SERVICE_DISABLED", "denied", "SERVICE_DISABLED"),
        ("forbidden", "IAM_PERMISSION_DENIED", "denied", "forbidden"),
    ],
)
def test_the_word_that_says_more_counts(reason: str, info: str, trouble: str, code: str) -> None:
    """A 403 is a veto unless one of its words says that it only asks for fewer requests."""
    error = error_of(403, body_of(403, reason, info))
    assert (error.trouble, error.code) == (trouble, code)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((status, b"<html>blocked</html>") for status in (400, 403, 404, 407, 301, 302, 307, 308)),
        *((403, body) for body in (b"[]", b'"no"', b"null", b"{}", b'{"error": "no"}', b'{"error": {"details": 1}}')),
        (403, b'{"error": {"code": 403, "message": "no", "details": ["x"]}}'),
    ],
)
def test_a_refusal_without_a_reason_is_blamed_on_what_stands_between(status: int, body: bytes) -> None:
    """No role helps against a proxy, and it is no veto of the cloud."""
    error = error_of(status, body, "Location: http://127.0.0.1:9/")
    assert (error.trouble, error.code) == ("unreachable", FOREIGN)
    assert "another service answers" in str(error)
    assert "NO_PROXY" in error.hint


def test_the_word_of_a_status_is_a_reason() -> None:
    """The newest answers have no other."""
    body = {"error": {"code": 400, "message": "words", "status": "FAILED_PRECONDITION"}}
    error = error_of(400, body)
    assert (error.trouble, error.code) == ("refused", "FAILED_PRECONDITION")


@pytest.mark.parametrize("status", [200, 403])
def test_an_answer_without_an_end_is_not_read(status: int) -> None:
    """Unpacked, too: a thousandth of it is on the wire."""
    body = gzip.compress(b" " * (LONGEST_BYTES + 1))
    error = error_of(status, body, "Content-Encoding: gzip")
    assert error.technical
    assert "more than 8 MB" in str(error)


@pytest.mark.parametrize("status", [429, 503])
def test_the_cloud_says_how_long_to_wait(status: int) -> None:
    """And is not asked earlier; a wait beyond the budget is not waited."""
    error = error_of(status, body_of(status, "backendError"), "Retry-After: 7")
    assert error.retry_after == 7.0

    def call(_left: float) -> None:
        raise error

    began = time.monotonic()
    with pytest.raises(CloudError):
        until(began + 5.0, call)
    assert time.monotonic() - began < 4.0


def test_a_wrong_clock_is_named() -> None:
    """The answer's date tells it; without that it is a matter of credentials."""
    late = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(hours=2), usegmt=True)
    skewed = error_of(401, body_of(401, "authError"), f"Date: {late}")
    assert (skewed.trouble, skewed.code) == ("clock", "clock_skew")
    assert "clock is 2 h behind" in str(skewed)
    assert error_of(401, body_of(401, "authError")).trouble == "credentials"


def test_a_group_is_asked_for_by_the_projects_id(tmp_path: pathlib.Path) -> None:
    """The attribute has the project's number; the right is granted, and every other request made, by its id."""
    with world_of(Machine(group=Group()), tmp_path, on_project=READS_GROUPS) as world:
        world.settings["group"] = "leave"
        world.open().facts("stop")
        asked = [one.path for one in world.api.requests if "instanceGroupManagers" in one.path]
    assert asked
    assert all(f"/projects/{world.machine.project}/" in path for path in asked)


def test_a_machine_of_tomorrow_is_as_old_as_its_boot(tmp_path: pathlib.Path) -> None:
    """A clock that is behind must not make every missing right a late one."""
    with world_of(Machine(), tmp_path) as world:
        tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        world.api.extra = {"creationTimestamp": tomorrow.isoformat()}
        facts = world.open().facts("stop")
    assert facts.vm is not None
    assert facts.vm.age is None
    assert facts.age == facts.uptime
