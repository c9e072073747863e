"""One machine with everything around it: metadata, API, and the files that its kernel would show."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from costguard.cloud.api import Site
from costguard_aws.disks import MODEL
from costguard_aws.testing.api import Api, Nature, client
from costguard_aws.testing.imds import Imds

ACCOUNT = "123456789012"
REGION = "us-east-1"
IMAGE = "ami-12c6146b"  # one that moto knows
ROLE = "costguard-role"


class FakeMachine:
    """An instance that exists in the API and in the metadata. ``root`` is a folder for its files."""

    def __init__(self, imds: Imds, api: Api, root: str, kind: str, nature: Nature) -> None:
        self.imds = imds
        self.api = api
        self.root = root
        self.kind = kind
        self.ec2: Any = client(api, "ec2", REGION)
        made = self.ec2.run_instances(ImageId=IMAGE, InstanceType=kind, MinCount=1, MaxCount=1)
        self.id = str(made["Instances"][0]["InstanceId"])
        self.become(nature)
        self._describe()
        self.write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
        self.write("sys/class/dmi/id/board_asset_tag", f"{self.id}\n")
        self.write("sys/block/nvme0n1/device/model", "Amazon Elastic Block Store\n")
        self.write("proc/uptime", "86400.00 1000.00\n")
        self.mount("/dev/nvme0n1p1", "/", "259:1")
        os.makedirs(os.path.join(self.root, "proc/1/root"))
        api.log.clear()

    def become(self, nature: Nature) -> None:
        """Change what the API knows of it."""
        self.api.natures[self.id] = nature
        lifecycle = "spot" if nature.spot else "capacity-block" if nature.block else "on-demand"
        self.imds.values["meta-data/instance-life-cycle"] = lifecycle

    @property
    def state(self) -> str:
        """The state that EC2 really has, without a request."""
        return self.api.state(self.id)

    def site(self, **settings: object) -> Site:
        """Where the plug-in looks; ``settings`` is the section ``[cloud]``."""
        given = {"metadata_endpoint": self.imds.url, "api_endpoint": self.api.url, **settings}
        return Site(self.dmi(), given, {}, os.path.join(self.root, "proc"), os.path.join(self.root, "sys"))

    def environ(self) -> dict[str, str]:
        """The environment in which the SDK, and an installed costguard, find this machine's cloud."""
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.imds.url, "AWS_ENDPOINT_URL": self.api.url}

    def dmi(self) -> Mapping[str, str]:
        """The firmware's identity, from the files."""
        folder = os.path.join(self.root, "sys/class/dmi/id")
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found[name] = file.read().strip()
        return found

    def write(self, path: str, text: str) -> None:
        """One file below the machine's root."""
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def mount(self, source: str, target: str, number: str) -> None:
        """Add a line to the host's table of mounts."""
        full = os.path.join(self.root, "proc/1/mountinfo")
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "a", encoding="utf-8") as file:
            file.write(f"30 1 {number} / {target} rw - ext4 {source} rw\n")

    def local_disk(self, name: str = "nvme1n1", number: str = "259:4", mounted: str = "") -> None:
        """Add an instance store disk. Where it is ``mounted``, `file` puts something; until then it is empty."""
        self.write(f"sys/block/{name}/device/model", f"{MODEL}\n")
        self.write(f"sys/block/{name}/dev", f"{number}\n")
        if mounted:
            self.mount(f"/dev/{name}", mounted, number)
            os.makedirs(os.path.join(self.root, "proc/1/root", mounted.lstrip("/"), "lost+found"))

    def file(self, path: str) -> None:
        """Put a file somewhere on the machine."""
        self.write(os.path.join("proc/1/root", path.lstrip("/")), "x")

    def join(self, name: str = "gpus", minimum: int = 0, desired: int = 1) -> None:
        """Make it a member of an Auto Scaling group."""
        zone = self.ec2.describe_instances(InstanceIds=[self.id])["Reservations"][0]["Instances"][0]["Placement"]
        with closing(client(self.api, "autoscaling", REGION)) as groups:
            groups.create_launch_configuration(LaunchConfigurationName=name, ImageId=IMAGE, InstanceType=self.kind)
            groups.create_auto_scaling_group(
                AutoScalingGroupName=name,
                LaunchConfigurationName=name,
                MinSize=0,
                MaxSize=10,
                DesiredCapacity=0,
                AvailabilityZones=[zone["AvailabilityZone"]],
            )
            groups.attach_instances(AutoScalingGroupName=name, InstanceIds=[self.id])
            groups.update_auto_scaling_group(AutoScalingGroupName=name, MinSize=minimum, DesiredCapacity=desired)
        self.imds.values["meta-data/autoscaling/target-lifecycle-state"] = "InService"
        self.api.log.clear()

    @property
    def desired(self) -> int:
        """The desired size of its group."""
        with closing(client(self.api, "autoscaling", REGION)) as groups:
            return int(groups.describe_auto_scaling_groups()["AutoScalingGroups"][0]["DesiredCapacity"])

    def leave(self, name: str = "gpus") -> None:
        """Detach it from its group, as a person does."""
        with closing(client(self.api, "autoscaling", REGION)) as groups:
            groups.detach_instances(
                InstanceIds=[self.id], AutoScalingGroupName=name, ShouldDecrementDesiredCapacity=True
            )
        self.api.log.clear()

    def _describe(self) -> None:
        document = {
            "accountId": ACCOUNT,
            "architecture": "x86_64",
            "availabilityZone": f"{REGION}a",
            "imageId": IMAGE,
            "instanceId": self.id,
            "instanceType": self.kind,
            "region": REGION,
            "version": "2017-09-30",
        }
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6 * 3600))
        role = {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": "ASIAFAKE",
            "SecretAccessKey": "fake",
            "Token": "fake-token",
            "Expiration": end,
        }
        self.imds.values |= {
            "dynamic/instance-identity/document": json.dumps(document),
            "meta-data/instance-id": self.id,
            f"meta-data/iam/security-credentials/{ROLE}": json.dumps(role),
        }


@contextmanager
def machine(root: str, kind: str = "g5.xlarge", nature: Nature | None = None) -> Iterator[FakeMachine]:
    """A machine of a type, with its cloud around it, for as long as the context lasts."""
    with ExitStack() as stack:
        imds = stack.enter_context(Imds().running())
        api = stack.enter_context(Api().running())
        here = FakeMachine(imds, api, root, kind, nature or Nature())
        stack.callback(here.ec2.close)
        yield here
