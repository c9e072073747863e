"""``costguard stop --verify``: ask a cloud, from any machine, whether the bill of a receipt has ended."""

import os
import sys
from collections.abc import Sequence

import click

from costguard import extras
from costguard.cli import options
from costguard.cli.answer import emit
from costguard.cloud import dmi, receipt
from costguard.cloud.access import CloudAccess
from costguard.cloud.api import CloudError, Provider, Site, load, site_settings
from costguard.errors import REFUSED, USAGE, CostguardError
from costguard.files import open_file
from costguard.plans import Result


def check(given: str, arguments: options.Arguments, *, as_json: bool) -> None:
    """Print what the cloud shows; exit code 0 when the bill has ended, 3 when it has not or that is unknown."""
    from costguard.config import load_effective

    fields = _receipt(given)
    access = CloudAccess.of(load_effective(options.local_only(arguments), os.environ))
    here = dmi.identity(access.host.sysfs)  # on a machine of that cloud, its own identity may ask
    provider = _provider(fields, access.providers)
    own = site_settings(access.cloud, fields["provider"], provider)
    outcome = _ask(provider, Site(here, own, dict(os.environ), access.host.procfs, access.host.sysfs), fields)
    closed = outcome.status == "done"
    if as_json:
        shown = {"closed": closed, "status": outcome.status, "detail": outcome.detail, "proof": outcome.proof}
        emit("verify", {**shown, "receipt": fields})
    else:
        click.echo(f"{fields['cloud']} {fields['instance']}: {outcome.detail}")
    if not closed:
        raise SystemExit(REFUSED)


def _receipt(given: str) -> dict[str, str]:
    text = given
    try:
        if given == "-":
            text = sys.stdin.read(receipt.LONGEST_BYTES)
        elif given and "{" not in given:
            with open_file(given) as file:
                text = file.read(receipt.LONGEST_BYTES).decode()
        return receipt.parse(text)
    except OSError as error:
        raise CostguardError(f"{given} cannot be read: {error.strerror}", _HINT, USAGE) from error
    except UnicodeDecodeError as error:
        raise CostguardError("this is not a receipt: it is not text", _HINT, USAGE) from error
    except ValueError as error:
        raise CostguardError(f"this is not a receipt of a stop: {error}", _HINT, USAGE) from error


_HINT = "the message of the stop and `costguard history ID` show the receipt; it begins with {"


def _provider(fields: dict[str, str], listed: Sequence[str]) -> Provider:
    mine = [entry for entry in listed if entry.partition("=")[0] == fields["provider"]]
    loaded = load(mine)
    if loaded.plug_ins:
        return loaded.plug_ins[0]
    why = "; ".join(loaded.failures) or "it is not installed here"
    message = f"the plug-in {fields['provider']!r} of this receipt cannot be used: {why}"
    raise CostguardError(message, extras.command(fields["provider"]), USAGE)


def _ask(provider: Provider, site: Site, fields: dict[str, str]) -> Result:
    try:
        return provider.verify(site, fields)
    except CloudError as error:
        message = f"the cloud could not be asked: {error}; whether the bill has ended is unknown"
        hint = error.hint or "check that this machine's credentials may read the other machine"
        raise CostguardError(message, hint, REFUSED) from error
    except ImportError as error:
        message = f"the library for {provider.name} is not installed ({error})"
        raise CostguardError(message, extras.command(fields["provider"]), USAGE) from error
