"""Every generated file of the modules, by its path from the top of the repository."""

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
    for module in ("machine", *CLOUDS):
        folder = ROOT / "terraform" / module
        sources = {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.tf"))}
        fresh = {Path(path).name: text for path, text in made.items() if path == f"terraform/{module}/settings.tf"}
        page = folder / "README.md"
        made[f"terraform/{module}/README.md"] = readme.fill(
            page.read_text(encoding="utf-8"), "\n".join((sources | fresh).values())
        )
    return made
