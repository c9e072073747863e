"""Every generated file of the modules, by its path from the top of the repository."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from terraform.generate import options, readme, rights, variables

ROOT = Path(__file__).parents[2]
CLOUDS = ("aws", "gcp", "azure")


def generated() -> Mapping[str, str]:
    """Path and text of each; a README keeps what stands outside its marks."""
    made = {"terraform/machine/options.json": options.document()}
    machine = (ROOT / "terraform/machine/variables.tf").read_text(encoding="utf-8")
    for cloud in CLOUDS:
        made[f"terraform/{cloud}/settings.tf"] = variables.document(machine)
    made |= {f"terraform/{cloud}/permissions.json": text for cloud, text in rights.documents().items()}
    for module in ("machine", *CLOUDS, *(f"{cloud}/backstop" for cloud in CLOUDS)):
        folder = ROOT / "terraform" / module
        sources = {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.tf"))}
        fresh = {Path(path).name: text for path, text in made.items() if path == f"terraform/{module}/settings.tf"}
        page = folder / "README.md"
        made[f"terraform/{module}/README.md"] = readme.fill(
            page.read_text(encoding="utf-8"), "\n".join((sources | fresh).values())
        )
    return made


def packages() -> Mapping[str, bytes]:
    """Path and bytes of what a cloud wants packed; the same bytes each time."""
    folder = "terraform/aws/backstop"
    source = (ROOT / folder / "watch.py").read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        entry = zipfile.ZipInfo("watch.py", (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        archive.writestr(entry, source)
    return {f"{folder}/watch.zip": packed.getvalue()}
