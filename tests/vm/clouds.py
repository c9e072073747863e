"""Machines in a cloud: its firmware, its metadata service at the real address, its API under the real names.

The machine has a network of its own that leads nowhere else. The stand-ins listen on this computer's loopback, and do to the
machine what the cloud would do: they press its power button.
"""

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trustme

import costguard_azure.testing as azure
import costguard_gcp.testing as gcp
from costguard.testing.web import Answer
from costguard_aws.testing import Api, FakeMachine, Imds, Nature
from costguard_aws.testing.machine import REGION
from costguard_azure.firmware import ASSET_TAG
from tests.vm.guarded import DROP_IN, GPUS, Guarded
from tests.vm.image import Image

METADATA, API = "169.254.169.254", "169.254.169.250"
POWER_SECONDS = 1.0
"""Between the answer of a cloud and its pressing the power button."""

AUTHORITY = "/etc/ssl/cloud.pem"
TRUSTING = "".join(f"Environment={name}={AUTHORITY}\n" for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"))


class Cloud(ABC):
    """Stand-ins of one cloud with one machine in it; `powers_off` is called when they have accepted its end."""

    names: tuple[str, ...]
    firmware: tuple[str, ...]

    def __init__(self, metadata: str, api: str) -> None:
        self.metadata, self.api = metadata, api
        self.powers_off: Callable[[], None] = lambda: None

    def end(self) -> None:
        """The machine was accepted for its end."""
        self.powers_off()

    @abstractmethod
    def ends(self) -> int:
        """How often its end was accepted."""

    @abstractmethod
    def refuse(self) -> None:
        """Take the right to end it away."""

    @abstractmethod
    def allow(self) -> None:
        """Give it back."""

    @abstractmethod
    def begin(self) -> None:
        """A person starts it again."""


class _Ec2(Api):
    end: Callable[[], None]

    def answer(self, headers: Any, body: bytes) -> Answer | None:
        """And the machine, where it was stopped by that."""
        done = super().answer(headers, body)
        last = self.log[-1]
        if done is not None and done.status == 200 and last.action == "StopInstances" and not last.dry:
            self.end()
        return done


class Aws(Cloud):
    """EC2."""

    names = (f"ec2.{REGION}.amazonaws.com", f"autoscaling.{REGION}.amazonaws.com")

    def __init__(self, imds: Imds, ec2: _Ec2, folder: Path) -> None:
        super().__init__(imds.url, ec2.url)
        self._ec2 = ec2
        self._here = FakeMachine(imds, ec2, str(folder), "g5g.xlarge", Nature())
        self.instance = self._here.id
        self.firmware = (
            f"type=1,manufacturer=Amazon EC2,product=g5g.xlarge,uuid=ec2f4d3c-1111-4222-8333-{self.instance[-12:]}",
            f"type=2,manufacturer=Amazon EC2,asset={self.instance}",
        )

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator["Aws"]:
        """Its servers."""
        ec2 = _Ec2()
        with Imds().running() as imds, ec2.running():
            made = cls(imds, ec2, folder)
            ec2.end = made.end
            yield made

    def ends(self) -> int:
        """Calls that EC2 accepted."""
        return sum(call.answered == 200 for call in self._ec2.calls("StopInstances"))

    def refuse(self) -> None:
        """The role loses it."""
        self._ec2.denied.add("StopInstances")

    def allow(self) -> None:
        """The role has it again."""
        self._ec2.denied.clear()

    def begin(self) -> None:
        """As the console does."""
        self._here.ec2.start_instances(InstanceIds=[self._here.id])


class _Instance(gcp.Machine):
    end: Callable[[], None]

    def begin(self, verb: str) -> None:
        """And the power button."""
        super().begin(verb)
        self.end()


class Google(Cloud):
    """Compute Engine."""

    names = ("compute.googleapis.com",)
    firmware = ("type=1,manufacturer=Google,product=Google Compute Engine",)

    def __init__(self, machine: _Instance, metadata: gcp.MetadataServer, api: gcp.ComputeApi) -> None:
        super().__init__(metadata.url, api.url)
        self._machine, self._api = machine, api

    @classmethod
    @contextmanager
    def running(cls, _folder: Path) -> Iterator["Google"]:
        """Its servers."""
        machine = _Instance()
        with gcp.MetadataServer(machine) as metadata, gcp.ComputeApi(machine) as api:
            made = cls(machine, metadata, api)
            machine.end = made.end
            yield made
            assert api.troubles == []

    def ends(self) -> int:
        """Stops that had an effect."""
        return len(self._api.effects)

    def refuse(self) -> None:
        """The role loses it."""
        self._api.granted.discard("compute.instances.stop")

    def allow(self) -> None:
        """The role has it again."""
        self._api.granted.add("compute.instances.stop")

    def begin(self) -> None:
        """As the console does."""
        self._machine.status = "RUNNING"


class _Vm(azure.World):
    end: Callable[[], None]

    def begin(self, target: str, *, hibernate: bool = False) -> str:
        """And the power button."""
        self.end()
        return super().begin(target, hibernate=hibernate)


class Azure(Cloud):
    """The Resource Manager. It tells its own address to whoever follows a long operation."""

    names = ("management.azure.com",)
    right = "Microsoft.Compute/virtualMachines/deallocate/action"

    def __init__(self, here: azure.FakeAzure) -> None:
        super().__init__(here.settings["metadata_endpoint"], here.settings["api_endpoint"])
        self._here = here
        self.firmware = (
            f"type=1,manufacturer=Microsoft Corporation,product=Virtual Machine,uuid={here.world.vm_id}",
            f"type=3,manufacturer=Microsoft Corporation,asset={ASSET_TAG}",
        )

    @classmethod
    @contextmanager
    def running(cls, _folder: Path) -> Iterator["Azure"]:
        """Its servers."""
        world = _Vm()
        with azure.FakeAzure(world, address=f"https://{cls.names[0]}") as here:
            made = cls(here)
            world.end = made.end
            yield made

    def ends(self) -> int:
        """Requests that it accepted."""
        return sum(entry.status in {200, 202} for entry in self._here.sent("deallocate"))

    def refuse(self) -> None:
        """The role loses it."""
        self._here.world.rights.remove(self.right)

    def allow(self) -> None:
        """The role has it again."""
        self._here.world.rights.append(self.right)

    def begin(self) -> None:
        """As the portal does."""
        self._here.world.start()


class Rented(Guarded):
    """A guarded machine in a cloud. Whoever sits at its second serial line is alice."""

    def __init__(self, image: Image, folder: Path, cloud: Cloud, options: Sequence[str] = ()) -> None:
        self.cloud = cloud
        self._cut = folder / "cut"
        self.seen_at_end: list[str] = []
        authority = trustme.CA()
        self._authority = authority.cert_pem.bytes().decode()
        shown = folder / "api.pem"
        authority.issue_cert(*cloud.names).private_key_and_cert_chain_pem.write_to_path(str(shown))
        tls = ("tls",) if cloud.api.startswith("https:") else ()
        never = folder / "never"
        ways = [
            _forward(METADATA, 80, never, cloud.metadata),
            _forward(API, 443, self._cut, cloud.api, str(shown), *tls),
        ]
        net = f"user,id=net,net=169.254.169.0/24,restrict=on,{','.join(ways)}"
        firmware = [part for strings in cloud.firmware for part in ("-smbios", strings)]
        super().__init__(image, folder, ["-netdev", net, "-device", "virtio-net-pci,netdev=net", *firmware, *options])

    def set_up_in_cloud(self, configuration: str) -> None:
        """Install the service as on an instance that trusts the cloud's certificates, with alice at work."""
        self.put(AUTHORITY, self._authority)
        self.shell(f"printf '{API} %s\\n' {' '.join(self.cloud.names)} >> /etc/hosts")
        self.sits()
        self.cloud.powers_off = self._ends
        self.set_up(configuration, DROP_IN + TRUSTING)

    def planned(self, action: str) -> str:
        """What its last plan said; empty where there is none yet."""
        return str({plan["action"]: plan["verdict"] for plan in self.status().get("plans", ())}.get(action, ""))

    def cut(self) -> None:
        """Nobody reaches the API any more; the metadata service still answers."""
        self._cut.touch()

    def mend(self) -> None:
        """The API answers again."""
        self._cut.unlink()

    def boot_again(self) -> None:
        """A person starts it."""
        self.cloud.begin()
        self.boot()
        self.sits()
        self.put(GPUS, self.gpus.text())  # its script was in memory
        self.until(self.sees_gpus)

    def _ends(self) -> None:
        self.seen_at_end.append(" ".join(self.terminal.split()))
        threading.Timer(POWER_SECONDS, self.press_power).start()


def _forward(address: str, port: int, cut: Path, server: str, *tls: str) -> str:
    relay = Path(__file__).with_name("relay.py")
    words = [sys.executable, "-I", "-S", str(relay), str(cut), str(urlsplit(server).port), *tls]
    return f"guestfwd=tcp:{address}:{port}-cmd:{' '.join(words)}"
