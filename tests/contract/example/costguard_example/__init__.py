"""Example Cloud: a plug-in as somebody else would write it, in one file.

Its metadata service and its API speak JSON over HTTP. Source: `tests.contract.cloud_server`, which is that cloud.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from costguard.cloud.api import (
    CloudError,
    CloudNotice,
    Consequence,
    Identity,
    Permission,
    Price,
    Site,
    Ticket,
    Trouble,
    Verb,
    policy_command,
)
from costguard.plans import Plan, PlanFinding, Result, Verdict, worst

TROUBLES: Mapping[int, Trouble] = {401: "credentials", 403: "denied", 404: "gone", 409: "refused", 429: "throttled"}
TIMEOUT = 2.0
ENDED = {"stop": "stopped", "terminate": "gone", "hibernate": "asleep"}


class Example:
    """What can be said of a machine of Example Cloud."""

    name = "Example Cloud"

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Its firmware names it."""
        return dmi.get("sys_vendor") == "Example Cloud"

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """The board's asset tag is the machine's id."""
        return dmi.get("board_asset_tag", "") if self.recognises(dmi) else ""

    def guest_shutdown(self) -> Consequence:
        """As a stop."""
        return Consequence(True, True, "a shutdown from inside stops the machine; its disks go on being billed")

    def identify(self, site: Site) -> Identity:
        """The firmware's tag and the metadata service must agree."""
        found = metadata(site, "/machine")
        tag = site.dmi.get("board_asset_tag", "")
        if tag and tag != found["id"]:
            words = f"the firmware says {tag}, and the metadata service says {found['id']}"
            raise CloudError("changed", words, hint="restart the machine, then run `costguard doctor`")
        evidence = (f"firmware tag {tag or 'missing'}", f"metadata id {found['id']}")
        details = {"project": str(found["project"])}
        region, zone = str(found["region"]), str(found["zone"])
        return Identity(self.name, found["id"], region, zone, found["type"], "on-demand", details, evidence)

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """What the metadata service lists."""
        listed = metadata(site, "/notices")
        return tuple(CloudNotice(each["id"], each["kind"], each["at"], each["words"]) for each in listed["notices"])

    def tags(self, site: Site) -> Mapping[str, str]:
        """The tags of the machine."""
        return {str(name): str(value) for name, value in metadata(site, "/tags").items()}

    def open(self, site: Site, identity: Identity) -> "ExampleMachine":
        """A token of the metadata service opens the API."""
        return ExampleMachine(site, identity.instance, str(metadata(site, "/token")["token"]))

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """Whoever has an account may ask."""
        machine = ExampleMachine(site, receipt["instance"], site.environ.get("EXAMPLE_TOKEN", ""))
        ended = ENDED[receipt["action"]]
        status = machine.status()
        if status == ended:
            return Result("done", f"closed: the machine is {status}, computing is not billed", receipt["request"])
        words = "seen stopping" if status == "stopping" else f"the cloud shows it {status}: the bill goes on"
        return Result("pending" if status == "stopping" else "unknown", words, receipt["request"])

    def price(self, identity: Identity) -> Price | None:
        """One type has a list price."""
        known = identity.type == "gpu.large"
        return Price(4.0, "USD", identity.region, "2026-01-01", "price list of Example Cloud") if known else None

    def permissions(self, verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
        """One right for each verb, one to look, and one to write tags."""
        acts = [Permission(f"machines.{verb}", f"to {verb} this machine") for verb in verbs]
        if tag:
            acts.append(Permission("machines.tag", "to write tags of this machine"))
        return (Permission("machines.read", "to see the state of the machine before and after a stop"), *acts)

    def policy(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """As its console takes it."""
        return "".join(f"allow {one.name} on machine/SELF\n" for one in self.permissions(verbs, tag=tag))

    def commands(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """With the command line of Example Cloud."""
        write = f"{policy_command('example', verbs, tag=tag)} > policy.txt"
        return f"{write}\nexamplectl machine grant --machine=MACHINE --policy=policy.txt"


class ExampleMachine:
    """A session about one machine."""

    def __init__(self, site: Site, instance: str, token: str) -> None:
        self._site = site
        self._instance = instance
        self._token = token

    def status(self) -> str:
        """What the API shows."""
        return str(self._call("GET", "")["status"])

    def facts(self, verb: Verb) -> dict[str, Any]:
        """The machine as the API shows it."""
        return self._call("GET", "") | {"verb": verb}

    def plan(self, verb: Verb, facts: Any) -> Plan:
        """A right that is missing and a protection refuse; the rest goes on being billed."""
        found: list[tuple[Verdict, PlanFinding]] = [
            ("go", PlanFinding("bill_ends", "computing ends, disks go on being billed"))
        ]
        if f"machines.{verb}" not in facts["rights"]:
            found.append(("refuse", PlanFinding("not_permitted", f"the right machines.{verb} is missing", "grant it")))
        if facts["protected"]:
            found.append(("refuse", PlanFinding("protected", "the machine is protected", "see its owner")))
        verdict = worst(*(verdict for verdict, _ in found))
        return Plan(verb, verdict, tuple(one for _, one in found), ends_bill=True, keeps_disks=verb != "terminate")

    def execute(self, verb: Verb, facts: Any, ticket: Ticket) -> Result:
        """One request, under the attempt's own name. Without an answer the cloud is asked once what it shows."""
        del facts
        try:
            answer = self._call("POST", f"/{verb}?attempt={ticket.attempt}")
        except CloudError as error:
            if error.trouble != "unreachable":
                raise
            return self._unanswered(error)
        return Result("accepted", "accepted", str(answer["request"]))

    def _unanswered(self, error: CloudError) -> Result:
        try:
            status = self.status()
        except CloudError:
            return Result("unknown", f"sent, and nobody can say what became of it: {error}")
        if status == "running":
            return Result("unknown", f"sent, not answered, and the cloud still shows it running: {error}")
        return Result("accepted", f"accepted: it was not answered, but the cloud shows the machine {status}")

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """What the API shows."""
        del ticket
        status, proof = self.status(), recorded.proof if recorded else ""
        if status == ENDED[verb]:
            return Result("done", "closed", proof)
        if status == "stopping":
            return Result("pending", "seen stopping", proof)
        return recorded or Result("unknown", f"the cloud shows it {status}")

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """One request for each tag; each takes far less than the time that is given."""
        del within
        if "machines.tag" not in self._call("GET", "")["rights"]:
            raise CloudError("denied", "the right machines.tag is missing", hint="grant machines.tag on this machine")
        for name, value in () if dry else tags.items():
            self._call("PUT", f"/tags/{quote(name)}?value={quote(value)}")

    def _call(self, method: str, path: str) -> dict[str, Any]:
        base = str(self._site.settings.get("api_endpoint") or "https://api.cloud.example")
        return ask(method, f"{base}/machines/{self._instance}{path}", {"Authorization": f"Bearer {self._token}"})


def metadata(site: Site, path: str) -> dict[str, Any]:
    """Ask the metadata service."""
    base = str(site.settings.get("metadata_endpoint") or "http://metadata.cloud.example")
    return ask("GET", base + path, {"Metadata": "yes"})


def ask(method: str, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """One request without proxies; every failure is a CloudError."""
    import http.client
    import json
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=TIMEOUT)
    try:
        connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), headers=dict(headers))
        answer = connection.getresponse()
        text = answer.read(65536)
    except (OSError, http.client.HTTPException) as error:
        words = f"{parts.hostname} does not answer ({type(error).__name__})"
        raise CloudError("unreachable", words, hint="see whether the network is up") from error
    finally:
        connection.close()
    if answer.status != 200:
        trouble = TROUBLES.get(answer.status, "internal")
        raise CloudError(
            trouble, f"{parts.path} answered {answer.status}", code=str(answer.status), hint="see its status page"
        )
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CloudError("internal", f"{parts.path} answered with something that is no JSON") from error
    if not isinstance(found, dict):
        raise CloudError("internal", f"{parts.path} answered with something else than an object")
    return found


PROVIDER = Example()
