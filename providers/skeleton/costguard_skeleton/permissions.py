"""The rights that each action needs, and the least policy that grants them to this one machine."""

from collections.abc import Sequence

from costguard.cloud.api import Permission, Verb, policy_command

TAG = "machines.tag"


def permissions(verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
    """One right for each verb, one to look, and one to write tags."""
    acts = [Permission(right(verb), f"to {verb} this machine") for verb in verbs]
    acts += [Permission(TAG, "to write tags of this machine")] if tag else []
    return (Permission("machines.read", "to see the state of the machine before and after a stop"), *acts)


def right(verb: Verb) -> str:
    """The right of an action itself."""
    return f"machines.{verb}"


def policy(verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """As the cloud's console takes it."""
    return "".join(f"allow {one.name} on machine/SELF\n" for one in permissions(verbs, tag=tag))


def commands(verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """The first one writes the policy, the others bind it to one machine."""
    write = f"{policy_command('skeleton', verbs, tag=tag)} > policy.txt"
    return f"{write}\nskeletonctl machine grant --machine=MACHINE --policy=policy.txt"
