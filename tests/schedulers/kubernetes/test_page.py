"""The sidecar of docs/tasks.md: what it mounts is what the plug-in reads."""

import re
from pathlib import Path
from typing import Any

import yaml

from costguard.config.options import OPTIONS

PAGE = (Path(__file__).parents[3] / "docs/tasks.md").read_text(encoding="utf-8")


def sidecar() -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod of the page, and the guard in it."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    spec = yaml.safe_load(text)["spec"]
    return spec, spec["initContainers"][0]


def test_its_account_has_the_files_that_are_read() -> None:
    """Its token reaches this container alone."""
    spec, guard = sidecar()
    sources = spec["volumes"][0]["projected"]["sources"]
    paths = [
        each["path"]
        for one in sources
        for each in [one.get("serviceAccountToken"), *[i for v in one.values() for i in v.get("items", ())]]
        if each
    ]
    assert sorted(paths) == ["ca.crt", "namespace", "token"]
    given = {one["name"]: one.get("value") for one in guard["env"]}
    assert given["COSTGUARD_TASK__KUBERNETES__SERVICE_ACCOUNT"] == guard["volumeMounts"][0]["mountPath"]
    assert "task.kubernetes.service_account" in OPTIONS
    assert spec["automountServiceAccountToken"] is False


def test_it_knows_which_pod_it_is_and_has_no_other_rights() -> None:
    """By the downward API; without root, without rights of the kernel, with nothing to write but its state."""
    _, guard = sidecar()
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in guard["env"] if "valueFrom" in one}
    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    context = guard["securityContext"]
    assert (context["runAsNonRoot"], context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (
        True,
        False,
        True,
    )
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert guard["restartPolicy"] == "Always"


def test_its_command_is_one_that_costguard_takes() -> None:
    """Each setting is an option."""
    _, guard = sidecar()
    settings = [
        word.partition("=")[0]
        for before, word in zip(guard["command"], guard["command"][1:], strict=False)
        if before == "--set"
    ]
    assert set(settings) <= set(OPTIONS)
