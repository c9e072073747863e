"""``costguard permissions``: the rights that an action needs, and the minimal policy that grants them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import click

from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.cloud.api import Permission, Provider, Verb, capabilities, load, secret_store
from costguard.errors import USAGE, CostguardError


@click.command(
    epilog=examples(
        "costguard permissions",
        "costguard permissions CLOUD",
        "costguard permissions CLOUD --action stop --action terminate",
        "costguard permissions CLOUD --policy",
    )
)
@click.argument("cloud", required=False)
@click.option(
    "--action",
    "actions",
    multiple=True,
    type=click.Choice(get_args(Verb)),
    help="For this action; may be given several times. Default: stop.",
)
@click.option("--tag", is_flag=True, help="Also the right for `tag = true` under [sink] and [heartbeat].")
@click.option("--secret", metavar="NAME", help="Only the right for a channel whose `urls` is secret:NAME.")
@click.option("--policy", is_flag=True, help="Print only the policy, for a file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    *, cloud: str | None, actions: tuple[Verb, ...], tag: bool, secret: str | None, policy: bool, as_json: bool
) -> None:
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
    if secret is not None:
        if actions or tag:
            message = "the right to read a secret has a policy of its own; allowed: --secret without --action and --tag"
            raise CostguardError(message, f"`costguard permissions {cloud} --secret NAME` prints it", USAGE)
        _show(cloud, provider, _of_secret(provider, secret), policy=policy, as_json=as_json)
        return
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
    what = f"rights for `{'`, `'.join(verbs)}` of this machine{' and its tags' if tag else ''}"
    texts = provider.policy(verbs, tag=tag) if can.policies else "", provider.commands(verbs, tag=tag)
    asked = Asked(what, {"actions": verbs, "tag": tag}, provider.permissions(verbs, tag=tag), *texts)
    _show(cloud, provider, asked, policy=policy, as_json=as_json)


class Asked(NamedTuple):
    """Rights for something, with the policy (empty: there is none) and the commands that grant them; ``names`` say for what, in JSON."""

    what: str
    names: Mapping[str, object]
    rights: Sequence[Permission]
    policy: str
    commands: str


def _of_secret(provider: Provider, name: str) -> Asked:
    store = secret_store(provider)
    if store is None:
        message = f"the plug-in for {provider.name} reads no secrets; allowed: no --secret"
        raise CostguardError(message, "docs/notify.md names other places for addresses", USAGE)
    if not store.valid(name):
        raise CostguardError(f"{name!r} is no secret of {provider.name}", f"allowed: {store.form}", USAGE)
    names = {"actions": (), "tag": False, "secret": name}
    texts = store.policy(name), store.commands(name)
    return Asked(f"rights to read the secret `{name}`", names, store.permissions(name), *texts)


def _show(cloud: str, provider: Provider, asked: Asked, *, policy: bool, as_json: bool) -> None:
    if as_json:
        listed = [right._asdict() for right in asked.rights]
        texts = {"policy": asked.policy, "commands": asked.commands}
        emit("permissions", {"cloud": cloud, **asked.names, "permissions": listed, **texts})
    elif policy:
        click.echo(asked.policy.rstrip("\n"))
    else:
        click.echo(f"{provider.name}: {asked.what}\n")
        width = max((len(right.name) for right in asked.rights), default=0)
        for right in asked.rights:
            click.echo(f"  {right.name:<{width}}  {right.why}{'' if right.needed else ' (optional)'}")
        if asked.policy:
            click.echo(f"\nThe policy (--policy prints only this):\n\n{asked.policy.rstrip()}")
        what = "bind it to one machine" if asked.policy else "grant them to this machine"
        click.echo(f"\nThe commands that {what}; replace the words in capitals:\n\n{asked.commands}")


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
