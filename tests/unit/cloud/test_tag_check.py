"""What a plan says of tags that may not be written, and what to do then."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from costguard.actions.base import Context
from costguard.cloud import tags
from costguard.cloud.access import HostPaths
from costguard.cloud.api import CloudError, Identity, Machine, Provider, Site
from costguard.plans import Plan

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


class Takes(Refuses):
    """One that takes any tag; ``taken`` has each with the seconds that there were."""

    taken: ClassVar[list[tuple[Mapping[str, str], float, bool]]] = []

    def identify(self, site: Site) -> Identity:
        return Identity("X", "m-1", "r", "z", "t", "", {}, ("a name",))

    def open(self, site: Site, identity: Identity) -> Machine:
        return self  # type: ignore[return-value]  # of the machine only its tags are asked for

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool) -> None:
        self.taken.append((tags, within, dry))


def job_of(root: Path, plugin: str, **sections: Mapping[str, object]) -> Context:
    """On a machine that is no container."""
    (root / "proc/1").mkdir(parents=True)
    (root / "proc/1/cgroup").write_text("0::/init.scope\n")
    host = HostPaths(procfs=str(root / "proc"), sysfs=str(root / "sys"), stands_for_host=True)
    return Context("stop", "live", host=host, providers=(f"x={__name__}:{plugin}",), **sections)  # type: ignore[arg-type]  # fields


def check(job: Context) -> Plan:
    """As the worker asks."""
    return tags.check(PLAN, job.access, job.sink, job.heartbeat)


def test_a_check_writes_nothing_and_ends_in_its_time(tmp_path: Path) -> None:
    """Both tags are asked about at once."""
    Takes.taken.clear()
    assert check(job_of(tmp_path, "Takes", sink={"tag": True}, heartbeat={"tag": True})) == PLAN
    ((written, within, dry),) = Takes.taken
    assert (set(written), dry) == ({tags.INCIDENT, tags.HEARTBEAT}, True)
    assert tags.CHECK_SECONDS - 5.0 < within <= tags.CHECK_SECONDS


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
    job = job_of(tmp_path, "Refuses", **{section: {"tag": True}})
    found = check(job)
    (finding,) = found.findings
    assert (found.verdict, finding.code) == ("consequences", code)
    assert hint in finding.hint
    assert str(error) in finding.text
    assert check(job._replace(sink={}, heartbeat={"tag": "yes"})) == PLAN
