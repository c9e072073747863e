"""``costguard permissions``: the rights that an action in a cloud, or the end of a task, needs, and the minimal policy that grants them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import click

from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.cloud.api import Permission, Provider, Verb, capabilities, load, secret_store
from costguard.engine.policy import END_TASK
from costguard.errors import USAGE, CostguardError
from costguard.tasks.api import Scheduler, policy_of


@click.command(
    epilog=examples(
        "costguard permissions",
        "costguard permissions CLOUD",
        "costguard permissions CLOUD --action stop --action terminate",
        "costguard permissions CLOUD --policy",
    )
)
@click.argument("cloud", metavar="[NAME]", required=False)
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
    """Print the rights that costguard needs in the cloud (or from the scheduler) NAME: what each is for, the policy that grants them, and the commands that bind it.

    Without NAME it lists the installed plug-ins. It contacts nobody and changes nothing.
    """
    from costguard.config.plug_ins import TASKS

    installed, schedulers = _installed(), dict(TASKS.installed)
    if cloud is None:
        _list(installed, schedulers, as_json=as_json)
        return
    if cloud in schedulers:
        if actions or tag or secret is not None:
            message = f"{schedulers[cloud].name} ends tasks and no machines; allowed: no --action, --tag and --secret"
            raise CostguardError(message, f"`costguard permissions {cloud}` prints the rights", USAGE)
        _of_tasks(cloud, schedulers[cloud], policy=policy, as_json=as_json)
        return
    if cloud not in installed:
        message = f"there is no plug-in {cloud!r}; installed: {', '.join((*installed, *schedulers)) or 'none'}"
        raise CostguardError(message, "`costguard permissions` lists them", USAGE)
    provider = installed[cloud]
    if secret is not None:
        if actions or tag:
            message = "the right to read a secret has a policy of its own; allowed: --secret without --action and --tag"
            raise CostguardError(message, f"`costguard permissions {cloud} --secret NAME` prints it", USAGE)
        _show(cloud, provider.name, _of_secret(provider, secret), policy=policy, as_json=as_json)
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
    asked = RightsPage(what, {"actions": verbs, "tag": tag}, provider.permissions(verbs, tag=tag), *texts)
    _show(cloud, provider.name, asked, policy=policy, as_json=as_json)


class RightsPage(NamedTuple):
    """Rights for something, with the policy (empty: there is none) and the commands that grant them; ``names`` say for what, in JSON."""

    what: str
    names: Mapping[str, object]
    rights: Sequence[Permission]
    policy: str
    commands: str


def _of_secret(provider: Provider, name: str) -> RightsPage:
    store = secret_store(provider)
    if store is None:
        message = f"the plug-in for {provider.name} reads no secrets; allowed: no --secret"
        raise CostguardError(message, "docs/notify.md names other places for addresses", USAGE)
    if not store.valid(name):
        raise CostguardError(
            f"{name!r} is not the name of a secret in {provider.name}", f"allowed: {store.form}", USAGE
        )
    names = {"actions": (), "tag": False, "secret": name}
    texts = store.policy(name), store.commands(name)
    return RightsPage(f"rights to read the secret `{name}`", names, store.permissions(name), *texts)


def _of_tasks(name: str, scheduler: Scheduler, *, policy: bool, as_json: bool) -> None:
    texts = policy_of(scheduler)
    if policy and not texts.policy:
        message = f"{scheduler.name} has no policies; allowed: no --policy"
        raise CostguardError(message, f"`costguard permissions {name}` prints what it needs", USAGE)
    what = f"rights for `{END_TASK}`, to end the one task in which costguard runs"
    asked = RightsPage(what, {"actions": (END_TASK,), "tag": False}, scheduler.permissions(), *texts)
    _show(name, scheduler.name, asked, policy=policy, as_json=as_json, bind="apply it")


def _show(
    cloud: str, title: str, asked: RightsPage, *, policy: bool, as_json: bool, bind: str = "bind it to one machine"
) -> None:
    if as_json:
        listed = [right._asdict() for right in asked.rights]
        texts = {"policy": asked.policy, "commands": asked.commands}
        emit("permissions", {"cloud": cloud, **asked.names, "permissions": listed, **texts})
    elif policy:
        click.echo(asked.policy.rstrip("\n"))
    else:
        click.echo(f"{title}: {asked.what}\n")
        width = max((len(right.name) for right in asked.rights), default=0)
        for right in asked.rights:
            click.echo(f"  {right.name:<{width}}  {right.why}{'' if right.needed else ' (optional)'}")
        if asked.policy:
            click.echo(f"\nThe policy (--policy prints only this):\n\n{asked.policy.rstrip()}")
        what = bind if asked.policy else "grant them to this machine"
        if asked.commands:
            click.echo(f"\nThe commands that {what}; replace the words in capitals:\n\n{asked.commands}")


def _installed() -> dict[str, Provider]:
    from costguard.config.plug_ins import CLOUDS

    loaded = load(CLOUDS.entries())
    for failure in loaded.failures:
        click.echo(f"a plug-in could not be loaded: {failure}", err=True)
    return dict(loaded.named)


def _list(installed: dict[str, Provider], schedulers: dict[str, Scheduler], *, as_json: bool) -> None:
    if as_json:
        titles = {name: provider.name for name, provider in installed.items()}
        emit("clouds", {"clouds": titles, "schedulers": {name: one.name for name, one in schedulers.items()}})
        return
    for name, provider in installed.items():
        click.echo(f"{name:<10} {provider.name}")
    for name, scheduler in schedulers.items():
        click.echo(f"{name:<10} {scheduler.name} (tasks)")
