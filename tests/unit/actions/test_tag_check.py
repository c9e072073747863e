"""What a plan says of tags that may not be written, and what to do then."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from costguard.actions import marks
from costguard.actions.base import Context, Host, Plan
from costguard.actions.provider import CloudError, Identity, Provider, Site

PLAN = Plan("stop", "go")
GRANT = "costguard permissions CLOUD --tag"


class Refuses(Provider):
    """A cloud that does not even say who this machine is."""

    error = CloudError("unreachable", "")

    @property
    def name(self) -> str:
        return "X"

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        return True

    def identify(self, site: Site) -> Identity:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (CloudError("unreachable", "no answer"), "tag_unknown", "see `costguard doctor`"),
        (CloudError("unreachable", "no answer", hint="look at the route"), "tag_unknown", "look at the route"),
        (CloudError("denied", "the right is missing"), "tag_denied", GRANT),
        (CloudError("denied", "the right is missing", hint="another one"), "tag_denied", GRANT),
        (CloudError("refused", "it is locked"), "tag_denied", GRANT),
        (CloudError("refused", "it is locked", hint="unlock it"), "tag_denied", "unlock it"),
    ],
)
@pytest.mark.parametrize("section", ["sink", "heartbeat"])
def test_a_tag_that_cannot_be_written_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: CloudError, code: str, hint: str, section: str
) -> None:
    """A cloud in trouble says nothing of a right; where one is missing the command that shows it is named."""
    monkeypatch.setattr(Refuses, "error", error)
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/cgroup").write_text("0::/init.scope\n")
    host = Host(procfs=str(tmp_path / "proc"), sysfs=str(tmp_path / "sys"), stands_for_host=True)
    job = Context("stop", "live", host=host, providers=(f"x={__name__}:Refuses",), **{section: {"tag": True}})  # type: ignore[arg-type]  # either field
    found = marks.check(PLAN, job)
    (finding,) = found.findings
    assert (found.verdict, finding.code) == ("consequences", code)
    assert hint in finding.hint
    assert str(error) in finding.text
    assert marks.check(PLAN, job._replace(sink={}, heartbeat={"tag": "yes"})) == PLAN
