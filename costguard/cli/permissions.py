"""``costguard permissions``: the rights that an action needs, and the minimal policy that grants them."""

from typing import get_args

import click

from costguard.cli.answer import emit
from costguard.cloud.api import Provider, Verb, capabilities, load
from costguard.errors import USAGE, CostguardError


@click.command()
@click.argument("cloud", required=False)
@click.option(
    "--action",
    "actions",
    multiple=True,
    type=click.Choice(get_args(Verb)),
    help="For this action; may be given several times. Default: stop.",
)
@click.option("--tag", is_flag=True, help="Also the right for `tag = true` under [sink] and [heartbeat].")
@click.option("--policy", is_flag=True, help="Print only the policy, for a file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, cloud: str | None, actions: tuple[Verb, ...], tag: bool, policy: bool, as_json: bool) -> None:
    """Print the rights that costguard needs in CLOUD for this machine, why, the policy that grants them, and the commands that bind it.

    Without CLOUD it lists the installed plug-ins. It contacts no cloud and changes nothing.
    """
    installed = _installed()
    if cloud is None:
        _list(installed, as_json=as_json)
        return
    if cloud not in installed:
        message = f"there is no plug-in {cloud!r}; installed: {', '.join(installed) or 'none'}"
        raise CostguardError(message, "`costguard permissions` lists them", USAGE)
    provider = installed[cloud]
    can = capabilities(provider)
    verbs: tuple[Verb, ...] = actions or ("stop" if "stop" in can.verbs else can.verbs[0],)
    if lacking := [verb for verb in verbs if verb not in can.verbs]:
        message = f"{provider.name} cannot {lacking[0]} a machine; allowed: {', '.join(can.verbs)}"
        raise CostguardError(
            message, f"`costguard permissions {cloud} --action {can.verbs[0]}` prints its rights", USAGE
        )
    if tag and not can.tags:
        message = f"machines of {provider.name} have no tags; allowed: no --tag"
        raise CostguardError(message, f"`costguard permissions {cloud}` prints the rights", USAGE)
    if policy and not can.policies:
        message = f"{provider.name} cannot limit a right to one machine, so there is no policy; allowed: no --policy"
        raise CostguardError(message, f"`costguard permissions {cloud}` prints what it needs instead", USAGE)
    rights, text = provider.permissions(verbs, tag=tag), provider.policy(verbs, tag=tag)
    commands = provider.commands(verbs, tag=tag)
    if as_json:
        listed = [right._asdict() for right in rights]
        names = {"cloud": cloud, "actions": verbs, "tag": tag}
        emit("permissions", {**names, "permissions": listed, "policy": text, "commands": commands})
    elif policy:
        click.echo(text.rstrip("\n"))
    else:
        tags = " and its tags" if tag else ""
        click.echo(f"{provider.name}: rights for `{'`, `'.join(verbs)}` of this machine{tags}\n")
        width = max((len(right.name) for right in rights), default=0)
        for right in rights:
            click.echo(f"  {right.name:<{width}}  {right.why}{'' if right.needed else ' (optional)'}")
        if can.policies:
            click.echo(f"\nThe policy (--policy prints only this):\n\n{text.rstrip()}")
        what = "bind it to one machine" if can.policies else "grant them to this machine"
        click.echo(f"\nThe commands that {what}; replace the words in capitals:\n\n{commands}")


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
