"""Which cloud plug-in speaks for this machine, and where it looks."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from costguard.cloud import dmi
from costguard.cloud.access import CloudAccess
from costguard.cloud.api import Provider, Site, load, site_settings
from costguard.plans import PlanFinding, Verdict


class Chosen(NamedTuple):
    """One plug-in, under the name of its entry point."""

    name: str
    provider: Provider
    site: Site


class NobodyError(Exception):
    """No single plug-in speaks for this machine; ``finding`` says why, and what to do."""

    def __init__(self, finding: PlanFinding, verdict: Verdict = "refuse") -> None:
        super().__init__(finding.text)
        self.finding = finding
        self.verdict = verdict


def choose(access: CloudAccess) -> Chosen:
    """The plug-in that the section ``[cloud]`` names, else the one that recognises the firmware. No network.

    Raises NobodyError.
    """
    settings, host = access.cloud, access.host
    wanted = str(settings.get("provider") or "auto")
    machine = dmi.identity(host.sysfs)
    if wanted == "none":
        text = 'cloud.provider = "none": no cloud is asked, and the bill would go on'
        raise NobodyError(PlanFinding("no_provider", text, 'set cloud.provider = "auto", or use another kill_action'))
    entries = list(access.providers)
    if wanted != "auto":
        entries = [entry for entry in entries if wanted in {entry.partition("=")[0], entry.rpartition("=")[2]}]
        if not entries:
            text = f"cloud.provider names the plug-in {wanted!r}, which is not installed: the bill would go on"
            raise NobodyError(
                PlanFinding("no_provider", text, "install it, or set one that `costguard permissions` lists")
            )
    loaded = load(entries)
    mine = [pair for pair in loaded.named if wanted != "auto" or pair[1].recognises(machine)]
    if len(mine) == 1:
        name, provider = mine[0]
        own = site_settings(settings, name, provider)
        return Chosen(name, provider, Site(machine, own, dict(os.environ), host.procfs, host.sysfs, host.devfs))
    raise NobodyError(_why([provider.name for _, provider in mine], loaded.failures, machine))


def _why(claims: list[str], failures: tuple[str, ...], machine: Mapping[str, str]) -> PlanFinding:
    """Why not exactly one plug-in recognises the firmware: none or several does, each with its own remedy."""
    if claims:
        text = f"several plug-ins claim this machine ({', '.join(claims)}), so none is used: the bill would go on"
        return PlanFinding("cloud_ambiguous", text, "set cloud.provider to the right one")
    if failures:
        text = f"a cloud plug-in failed to load, so no cloud can be asked: {'; '.join(failures)}"
        return PlanFinding("plugin_failed", text, "reinstall the plug-in, then run `costguard doctor`")
    words = " ".join(filter(None, (machine.get("sys_vendor"), machine.get("product_name")))) or "no firmware identity"
    text = f"no plug-in knows this machine ({words}): no cloud can be asked to end it, and the bill would go on"
    return PlanFinding(
        "no_provider", text, 'set kill_action = "shutdown" or "command", or name the cloud in cloud.provider'
    )
