"""The installed command, from the configuration to the receipt and the proof, on the stand-ins."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping

import pytest

from costguard_azure.testing import FakeAzure, LockOn

REFUSED = 3


def run(
    azure: FakeAzure, folder: pathlib.Path, *arguments: str, environ: Mapping[str, str] = {}, **settings: str
) -> subprocess.CompletedProcess[str]:
    cloud = {name: value for name, value in azure.settings.items() if name != "confirm_interval"} | settings
    lines = [
        'mode = "live"',
        'kill_action = "stop"',
        "[cloud]",
        *(f'{name} = "{value}"' for name, value in cloud.items()),
    ]
    lines += [
        "[notify]",
        "local_only = true",
        "[host]",
        f'procfs = "{azure.folder}/proc"',
        f'sysfs = "{azure.folder}/sys"',
        "stands_for_host = true",
    ]
    config = folder / "config.toml"
    config.write_text("\n".join(lines))
    command = [sys.executable, "-m", "costguard", *arguments, "--config", str(config), "--state-dir", str(folder)]
    found = {**os.environ, **azure.environ, "XDG_RUNTIME_DIR": str(folder), **environ}
    return subprocess.run(command, capture_output=True, text=True, env=found, timeout=50, check=False)


def test_stop_and_verify(azure: FakeAzure, tmp_path: pathlib.Path) -> None:
    """One request; the receipt leads back to the same machine, whose bill has ended."""
    done = run(azure, tmp_path, "stop", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accepted" in done.stdout
    [receipt] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    proof = run(azure, tmp_path, "stop", "--verify", receipt)
    assert proof.returncode == 0, proof.stdout + proof.stderr
    assert "closed" in proof.stdout
    assert len(azure.sent("deallocate")) == 1


@pytest.mark.parametrize(
    ("case", "words"),
    [("lock", "az lock list"), ("right", "Microsoft.Compute/virtualMachines/deallocate/action"), ("spare", "prepaid")],
)
def test_a_refusal_names_the_way_out(azure: FakeAzure, tmp_path: pathlib.Path, case: str, words: str) -> None:
    """Exit code 3, the words of the plan, and nothing sent."""
    if case == "lock":
        azure.world.locks.append(LockOn())
    elif case == "right":
        azure.world.rights.remove("Microsoft.Compute/virtualMachines/deallocate/action")
    else:
        azure.world.reservation = "block"
    done = run(azure, tmp_path, "stop", "--yes")
    assert done.returncode == REFUSED, done.stdout + done.stderr
    assert words in " ".join((done.stdout + done.stderr).split())
    assert azure.sent("deallocate") == []


def test_the_environment_names_the_metadata_service(azure: FakeAzure, tmp_path: pathlib.Path) -> None:
    """The variable that the page promises is no option that the configuration would not know."""
    address = str(azure.settings["metadata_endpoint"])
    named = {"COSTGUARD_AZURE_METADATA_ENDPOINT": address}
    done = run(azure, tmp_path, "stop", "--yes", environ=named, metadata_endpoint="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(azure.sent("deallocate")) == 1
