"""Which machine this is: two facts that agree, of which the metadata service is only one."""

from costguard.cloud.api import CloudError, Identity, Site

from .firmware import instance_of
from .metadata import ask, text


def identify(site: Site) -> Identity:
    """Raises CloudError where they do not, or where it is not in the project that the owner named."""
    found = ask(site, "/machine")
    number, tag = text(found, "id"), instance_of(site.dmi)
    if tag and tag != number:
        message = f"the firmware says {tag}, and the metadata service says {number}"
        raise CloudError(
            "changed", message, code="not_this_machine", hint="restart the machine, then run `costguard doctor`"
        )
    project, wanted = text(found, "project"), site.settings.get("project")
    if wanted and wanted != project:
        message = f"this machine is in the project {project}, and cloud.skeleton.project says {wanted}"
        raise CloudError("changed", message, code="not_this_machine", hint="set cloud.skeleton.project")
    evidence = (f"firmware tag {tag or 'missing'}", f"metadata id {number}")
    place, zone, kind = text(found, "region"), text(found, "zone"), text(found, "type")
    return Identity("Skeleton Cloud", number, place, zone, kind, "on-demand", {"project": project}, evidence)
