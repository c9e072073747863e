"""What is collected for machines without a package index is what the lock names."""

import re

import pytest

from release import lock, wheels


@pytest.mark.parametrize(("extra", "library"), [("aws", "boto3"), ("azure", "azure-mgmt-compute"), ("gcp", "google-cloud-compute")])  # fmt: skip
def test_each_cloud_has_its_libraries_and_no_others(extra: str, library: str) -> None:
    """At the version of the lock, with its checksums: what an index serves instead is refused."""
    lines = list(wheels.locked(extra))
    names = [line.partition("==")[0] for line in lines]
    assert {library, "pydantic", "apprise", "nvidia-ml-py", "pip"} <= set(names)
    assert not {"boto3", "azure-mgmt-compute", "google-cloud-compute", "matplotlib"} - {library} & set(names)
    assert all(re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    known = lock.read() | lock.read(lock.PIP)
    assert {line.split()[0] for line in lines} <= {f"{name}=={pin}" for name, (pin, _) in known.items()}
