"""``costguard permissions``: the rights that an action needs, and the least policy that grants them."""

from typing import get_args

import click

from costguard.cli.answer import emit
from costguard.cloud.api import Provider, Verb, capabilities, load
from costguard.errors import USAGE, CostguardError


@click.command()
@click.argument("cloud", required=False)
@click.option(
    "--action", "actions", multiple=True, type=click.Choice(get_args(Verb)), help="For these actions; stop by default."
)
@click.option("--tag", is_flag=True, help="Also for `tag = true` under [sink] and [heartbeat].")
@click.option("--policy", is_flag=True, help="Print the policy alone, to be written to a file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, cloud: str | None, actions: tuple[Verb, ...], tag: bool, policy: bool, as_json: bool) -> None:
    """Print the rights that costguard needs in CLOUD for this one machine, with what for, the policy that grants them, and the commands that bind it.

    Without CLOUD it lists the installed plug-ins. Nothing is asked of a cloud, and nothing is changed.
    """
    installed = _installed()
    if cloud is None:
        _list(installed, as_json=as_json)
        return
    if cloud not in installed:
        words = f"there is no plug-in {cloud!r}; installed: {', '.join(installed) or 'none'}"
        raise CostguardError(words, "`costguard permissions` lists them", USAGE)
    provider = installed[cloud]
    can = capabilities(provider)
    verbs: tuple[Verb, ...] = actions or ("stop" if "stop" in can.verbs else can.verbs[0],)
    if lacking := [verb for verb in verbs if verb not in can.verbs]:
        words = f"{provider.name} has no way to {lacking[0]} a machine; allowed: {', '.join(can.verbs)}"
        raise CostguardError(words, f"`costguard permissions {cloud} --action {can.verbs[0]}` prints its rights", USAGE)
    if tag and not can.tags:
        words = f"machines of {provider.name} have no tags; allowed: no --tag"
        raise CostguardError(words, f"`costguard permissions {cloud}` prints the rights", USAGE)
    if policy and not can.policies:
        words = f"{provider.name} cannot limit a right to one machine, so there is no policy; allowed: no --policy"
        raise CostguardError(words, f"`costguard permissions {cloud}` prints what it needs instead", USAGE)
    rights, text = provider.permissions(verbs, tag=tag), provider.policy(verbs, tag=tag)
    commands = provider.commands(verbs, tag=tag)
    if as_json:
        listed = [right._asdict() for right in rights]
        shown = {"cloud": cloud, "actions": verbs, "tag": tag, "permissions": listed, "policy": text}
        shown["commands"] = commands
        emit("permissions", shown)
    elif policy:
        click.echo(text.rstrip("\n"))
    else:
        click.echo(
            f"{provider.name}: what `{'`, `'.join(verbs)}` of this machine needs{', with its tags' if tag else ''}\n"
        )
        width = max((len(right.name) for right in rights), default=0)
        for right in rights:
            click.echo(f"  {right.name:<{width}}  {right.why}{'' if right.needed else ' (optional)'}")
        if can.policies:
            click.echo(f"\nThe policy (alone: --policy):\n\n{text.rstrip()}")
        what = "bind it to one machine" if can.policies else "give them to this machine"
        click.echo(f"\nThe commands that {what}; words in capitals are your own names:\n\n{commands}")


def _installed() -> dict[str, Provider]:
    from costguard.config.plug_ins import entries

    loaded = load(entries())
    for failure in loaded.failures:
        click.echo(f"a plug-in could not be loaded: {failure}", err=True)
    return dict(zip(loaded.names, loaded.providers, strict=True))


def _list(installed: dict[str, Provider], *, as_json: bool) -> None:
    if as_json:
        emit("clouds", {"clouds": {name: provider.name for name, provider in installed.items()}})
        return
    for name, provider in installed.items():
        click.echo(f"{name:<10} {provider.name}")
