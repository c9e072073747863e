"""What a cloud that cannot be asked becomes in words, and what is left to say of an attempt then."""

import pytest

from costguard.actions.cloud import CODES, _unasked, explain
from costguard.cloud.api import CloudError, Trouble
from costguard.plans import Result

TAIL = "; until then the cloud cannot end this machine, and the bill goes on"


@pytest.mark.parametrize(
    ("code", "hint", "found", "words"),
    [
        ("", "", "", "it said no"), ("AccessDenied", "do this", "", "it said no (AccessDenied)"), ("no", "do this", "", "it said no"),
        ("credentials_expired", "", "credentials_expired", "it said no (credentials_expired)"), ("scopes_missing", "", "scopes_missing", "it said no (scopes_missing)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("trouble", CODES)
def test_a_cloud_that_cannot_be_asked_is_a_finding(
    trouble: Trouble, code: str, hint: str, found: str, words: str
) -> None:
    """By the kind of its trouble, or the plug-in's own word; what is technical may pass, the rest is a veto."""
    error = CloudError(trouble, "it said no", code=code, hint=hint)
    verdict, finding = explain(error)
    assert finding.code == (found or CODES[trouble])
    assert (finding.text, finding.hint) == (words + TAIL, hint or "see `costguard doctor`")
    assert verdict == ("failed" if error.technical else "refuse")


def test_no_secret_of_a_cloud_reaches_people() -> None:
    """Whatever it says."""
    _, finding = explain(CloudError("internal", "password=hunter2-hunter2"))
    assert "hunter2" not in finding.text


@pytest.mark.parametrize(
    ("recorded", "status", "proof"),
    [(None, "unknown", ""), (Result("accepted", "a", "r", {"x": "1"}), "unknown", "r"), (Result("failed", "f", "p"), "failed", "p"), (Result("done", "d"), "done", "")],
)  # fmt: skip
def test_what_is_recorded_is_all_that_is_known(recorded: Result | None, status: str, proof: str) -> None:
    """An acceptance alone does not say that anything happened; its receipt stays."""
    found = _unasked(recorded, "no network")
    assert (found.status, found.proof) == (status, proof)
    if status == "unknown":
        assert "no network" in found.detail
        assert found.receipt == (recorded.receipt if recorded else {})
    else:
        assert found is recorded
