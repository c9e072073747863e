"""The rights that the calls of this plug-in need, and the least policy that grants them.

Sources: Compute Engine documentation "Compute Engine IAM roles and permissions" and the API's own description
of its methods; a custom role bound to one instance holds there alone.
"""

from collections.abc import Mapping, Sequence

from costguard.cloud.api import Permission, Verb, policy_command

CALLS: Mapping[Verb, str] = {"stop": "stop", "terminate": "delete", "hibernate": "suspend"}
"""What Google Cloud calls each action, in its methods and rights."""
_GET = Permission(
    "compute.instances.get", "know the machine by its numeric id before acting, and prove that its bill ended"
)
_ON_PROJECT = (
    Permission("compute.zoneOperations.get", "say why an accepted request failed later", needed=False),
    Permission(
        "compute.instanceGroupManagers.get",
        'see the size of a managed group; only for cloud.group = "leave"',
        needed=False,
    ),
    Permission(
        "compute.autoscalers.get", 'see the least size of a managed group; only for cloud.group = "leave"', needed=False
    ),
    Permission(
        "compute.instanceGroupManagers.update", 'leave a managed group; only for cloud.group = "leave"', needed=False
    ),
)
LABELS = "compute.instances.setLabels"
_LABELS = Permission(LABELS, "write the labels costguard-incident and costguard-heartbeat of this machine")

SCOPES = frozenset(("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/compute"))
"""Access scopes that allow changes to machines. A scope limits what a role allows."""

ROLE = "costguardSelf"
ADMIT = "run `costguard permissions gcp` and let an owner of the project bind the role"
COMPARE = "compare `gcloud compute instances list` with `costguard doctor`"
NO_SCOPE = "the access scopes of this machine allow no changes to machines, whatever its roles say"

_TEMPLATE = """\
# Google Cloud: the least rights for these actions. `costguard permissions gcp` prints the commands that bind them to one machine.
title: costguard, itself only
description: Lets a machine end its own bill. Bind it to the machine, not to the project.
stage: GA
includedPermissions:
{lines}
# Not in the role, because they hold for a whole project and are optional:
{optional}
"""


def on_machine(verbs: Sequence[Verb]) -> tuple[Permission, ...]:
    """The rights on the machine itself."""
    calls = dict.fromkeys(CALLS[verb] for verb in verbs)
    return (_GET, *(Permission(f"compute.instances.{call}", f"{call} this machine") for call in calls))


def permissions(verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
    """Every right, the optional ones last."""
    return (*on_machine(verbs), *((_LABELS,) if tag else ()), *_ON_PROJECT)


def policy(verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """A custom role as YAML, as ``gcloud iam roles create --file`` takes it."""
    lines = "\n".join(f"- {one.name}" for one in (*on_machine(verbs), *((_LABELS,) if tag else ())))
    optional = "\n".join(f"#   {one.name}: {one.why}" for one in _ON_PROJECT)
    return _TEMPLATE.format(lines=lines, optional=optional)


def commands(verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """The commands that create the role in the project and bind it to one machine. The words in capitals are to be put in."""
    where = "--project=PROJECT --zone=ZONE"
    return "\n".join(
        (
            f"{policy_command('gcp', verbs, tag=tag)} > costguard-role.yaml",
            "# only where the machine has no account of its own yet; EMAIL is then ACCOUNT@PROJECT.iam.gserviceaccount.com:",
            "gcloud iam service-accounts create ACCOUNT --project=PROJECT",
            "# then, in any case:",
            f"gcloud iam roles create {ROLE} --project=PROJECT --file=costguard-role.yaml",
            binding("projects/PROJECT/zones/ZONE/instances/INSTANCE", "EMAIL"),
            "# the machine also needs an access scope that allows it, which is set while it is stopped:",
            f"gcloud compute instances set-service-account INSTANCE {where} --service-account=EMAIL --scopes=cloud-platform",
        )
    )


def set_scopes(machine: str = "") -> str:
    """The advice for a machine whose access scopes are too narrow; they can be changed only while it is stopped."""
    return f"stop it once and run `gcloud compute instances set-service-account{machine} --scopes=cloud-platform`"


def binding(resource: str, account: str) -> str:
    """The command that binds the role to a machine ``projects/P/zones/Z/instances/N``, for its service account."""
    _, project, _, zone, _, name = resource.split("/")
    return (
        f"gcloud compute instances add-iam-policy-binding {name} --project={project} --zone={zone} "
        f"--member=serviceAccount:{account or 'EMAIL'} --role=projects/{project}/roles/{ROLE}"
    )
