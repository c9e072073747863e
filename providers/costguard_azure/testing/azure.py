"""Both stand-ins over one world, and a machine's own files around them."""

import os
import ssl
import tempfile
from collections.abc import Callable
from typing import Any, Self

from costguard.cloud.api import Site
from costguard.testing.web import Answer, Request, Server
from costguard_azure.firmware import ASSET_TAG
from costguard_azure.testing.arm import Arm
from costguard_azure.testing.faults import Faults
from costguard_azure.testing.imds import Imds
from costguard_azure.testing.vault import Vault
from costguard_azure.testing.world import World

DMI = {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine", "chassis_asset_tag": ASSET_TAG}


class FakeAzure:
    """Serves while the block lasts. ``folder`` holds the authority's file, and ``/proc`` and ``/sys`` of the machine.

    ``faster``: how much faster the machine's clock runs than the real one, so that so many more requests are allowed.
    ``address``: what the Resource Manager calls itself, where its clients know it by another address than its own.
    """

    def __init__(self, world: World | None = None, *, faster: float = 1.0, address: str = "") -> None:
        self.world = world or World()
        self._faster, self._address = faster, address
        self.faults = Faults()
        self.log: list[Request] = []
        self._folder = tempfile.TemporaryDirectory(prefix="costguard-azure-")
        self.folder = self._folder.name

    def __enter__(self) -> Self:
        arm, self._trusted = Arm(self.world, self.faults), self._tls()
        self._imds = self._server("imds", Imds(self.world, self.faults, self._faster).respond, None)
        self._arm = self._server("arm", arm.respond, self._trusted)
        arm.url = self._address or self._arm.url
        self._vault = self._server("vault", Vault(self.world, self.faults).respond, self._trusted)
        self._files()
        return self

    def _server(
        self, name: str, respond: Callable[[Request], tuple[str, Answer]], tls: ssl.SSLContext | None
    ) -> Server:
        def answer(request: Request) -> Answer:
            operation, found = respond(request)
            return found._replace(operation=operation)

        return Server(answer, tls=tls, name=name, log=self.log, drips_head=True).start()

    def __exit__(self, *_: object) -> None:
        self._imds.close()
        self._arm.close()
        self._vault.close()
        self._folder.cleanup()

    def unplug(self) -> None:
        """Nothing listens at the Resource Manager's address any more."""
        self._arm.close()

    @property
    def settings(self) -> dict[str, Any]:
        """The section ``[cloud]`` that leads here; `confirm_interval` is for tests alone."""
        return {"metadata_endpoint": self._imds.url, "api_endpoint": self._arm.url, "confirm_interval": 0.05}

    @property
    def vault_url(self) -> str:
        """What `store_endpoint` of ``[cloud.azure]`` is to be set to."""
        return self._vault.url

    @property
    def environ(self) -> dict[str, str]:
        """What makes the SDK trust this server."""
        return {"REQUESTS_CA_BUNDLE": os.path.join(self.folder, "ca.pem"), "PATH": os.environ.get("PATH", "")}

    def site(self, **settings: object) -> Site:
        """Where the plug-in looks, with more settings of ``[cloud]``."""
        procfs, sysfs = os.path.join(self.folder, "proc"), os.path.join(self.folder, "sys")
        return Site(dict(DMI), {**self.settings, **settings}, self.environ, procfs, sysfs)

    def sent(self, *operations: str) -> list[Request]:
        """The log of these operations."""
        return [entry for entry in self.log if entry.operation in operations]

    def mount(self, device: str, point: str) -> None:
        """Mount a device of the machine; `local_disk` makes one."""
        with open(os.path.join(self.folder, "proc/1/mounts"), "a", encoding="utf-8") as file:
            file.write(f"/dev/{device} {point} ext4 rw,relatime 0 0\n")
        os.makedirs(os.path.join(self.folder, "proc/1/root", point.lstrip("/")), exist_ok=True)

    def local_disk(self, device: str = "sdb") -> None:
        """Give the machine a local disk: the temporary one of SCSI, or a local NVMe."""
        block = os.path.join(self.folder, "sys/block", device)
        os.makedirs(os.path.join(block, "holders"), exist_ok=True)
        if device.startswith("nvme"):
            os.makedirs(os.path.join(block, "device"), exist_ok=True)
            with open(os.path.join(block, "device/model"), "w", encoding="ascii") as file:
                file.write("Microsoft NVMe Direct Disk v2\n")
            return
        channel = "VMBUS:01/00000000-0001-8899-0000-000000000000/host1/target1:0:1/1:0:1:0"
        place = os.path.join(self.folder, "sys/devices", channel)
        os.makedirs(place, exist_ok=True)
        os.symlink(place, os.path.join(block, "device"))

    def _files(self) -> None:
        """The firmware's identity, and a machine without a local disk."""
        for path in ("sys/class/dmi/id", "sys/block", "proc/1/root"):
            os.makedirs(os.path.join(self.folder, path), exist_ok=True)
        texts = {f"sys/class/dmi/id/{name}": f"{value}\n" for name, value in DMI.items()}
        texts |= {"proc/1/mounts": "/dev/root / ext4 rw 0 0\n", "proc/uptime": "86400.00 100.00\n"}
        for path, text in texts.items():
            with open(os.path.join(self.folder, path), "w", encoding="utf-8") as file:
                file.write(text)

    def _tls(self) -> ssl.SSLContext:
        """A server's certificate of an authority that lives as long as this object."""
        import trustme

        authority = trustme.CA()
        authority.cert_pem.write_to_path(os.path.join(self.folder, "ca.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        return context
