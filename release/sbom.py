"""The list of what is inside (SBOM), as CycloneDX 1.6: the wheel, and the libraries that it may use, by the lock."""

import datetime as dt
import json
import sys
import uuid
import zipfile
from email.message import Message
from email.parser import Parser
from hashlib import sha256
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from release import lock

LONGEST = 80
"""A longer text in the field of a licence is the licence itself, not its name."""

Json = dict[str, Any]


def sbom(wheel: Path, epoch: int, locked: Path = lock.LOCK) -> str:
    """The whole file; its bytes depend on the wheel, the date and the lock alone."""
    ours = _own(wheel)
    known = lock.read(locked)
    needs = lock.graph(lock.declared(lock.all_extras()))
    core = set(lock.graph(lock.declared()))
    if wrong := [name for name in sorted(needs) if name not in known or known[name][0] != version(name)]:
        raise SystemExit(
            f"error: installed here in another version than in {locked}: {', '.join(wrong)}\nhint: make lock"
        )
    refs = {name: f"pkg:pypi/{name}@{known[name][0]}" for name in needs}
    direct = sorted({canonicalize_name(one.name) for one in lock.declared(lock.all_extras())})
    document: Json = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": _date(epoch), "lifecycles": [{"phase": "build"}], "component": ours},
        "components": [_component(name, refs[name], known[name], required=name in core) for name in sorted(needs)],
        "dependencies": [
            {"ref": ours["bom-ref"], "dependsOn": [refs[name] for name in direct]},
            *({"ref": refs[name], "dependsOn": sorted(refs[one] for one in needs[name])} for name in sorted(needs)),
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True))
    return json.dumps({**document, "serialNumber": f"urn:uuid:{number}"}, indent=1, ensure_ascii=False) + "\n"


def _own(wheel: Path) -> Json:
    """The wheel itself, under no address of an index: it may have been published on none."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(archive.read(name).decode())
    return {
        "type": "application",
        "bom-ref": f"{about['Name']}@{about['Version']}",
        "name": about["Name"],
        "version": about["Version"],
        "description": about["Summary"],
        "licenses": _licences(about),
        "hashes": [{"alg": "SHA-256", "content": sha256(wheel.read_bytes()).hexdigest()}],
    }


def _component(name: str, ref: str, locked: tuple[str, list[str]], *, required: bool) -> Json:
    found: Json = {
        "type": "library",
        "bom-ref": ref,
        "name": name,
        "version": locked[0],
        "scope": "required" if required else "optional",
        "purl": ref,
    }
    if licences := _licences(metadata(name)):  # type: ignore[arg-type] # a Message, behind a narrower protocol
        found["licenses"] = licences
    if len(locked[1]) == 1:  # of several wheels the lock has the checksums
        found["hashes"] = [{"alg": "SHA-256", "content": locked[1][0]}]
    return found


def _licences(about: Message) -> list[Json]:
    if expression := about["License-Expression"]:
        return [{"expression": expression}]
    listed = about.get_all("Classifier") or []
    names = [one.rpartition(" :: ")[2] for one in listed if one.startswith("License :: ") and one.count("::") > 1]
    text = (about["License"] or "").strip()
    if not names and text and len(text) <= LONGEST and "\n" not in text:
        names = [text]
    return [{"license": {"name": name}} for name in names]


def _date(epoch: int) -> str:
    return dt.datetime.fromtimestamp(epoch, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    sys.stdout.write(sbom(Path(sys.argv[1]), int(sys.argv[2])))
