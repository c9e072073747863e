"""Every exception of the unit's sandbox is in one table, and is needed: with that one closed, something fails."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.exceptions import LEFT, UNIT, Left
from tests.vm.guarded import Guarded
from tests.vm.image import Image

pytestmark = pytest.mark.timeout(3600)

LISTS = ("CapabilityBoundingSet", "RestrictAddressFamilies")
"""Whose members are exceptions, one by one; systemd's own judgement takes several together."""

EMPTY = (
    "RuntimeDirectory", "StateDirectory", "CacheDirectory", "LogsDirectory", "ConfigurationDirectory", "ReadWritePaths",
    "BindPaths", "ExecPaths", "SupplementaryGroups", "AmbientCapabilities",
)  # fmt: skip
"""Properties of which each value is an exception."""

COMMANDS = ("ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost")
PROPERTIES = ",".join((*LISTS, *EMPTY, *(f"{command}Ex" for command in COMMANDS)))

HOLDS = """\
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
os.open("/dev/nvidia0", os.O_PATH)
while True:
    time.sleep(1000)
"""
SERVES = """\
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "11")
        self.end_headers()
        self.wfile.write(b"requests 1\\n")
server = ThreadingHTTPServer(("127.0.0.1", 8000), Page)
kept = socket.create_connection(server.server_address)
server.serve_forever()
"""
SEAT = "setsid --ctty setpriv --reuid=alice --regid=alice --clear-groups sleep 100000 </dev/ttyS1 >/dev/ttyS1 2>&1 &"
DEVICES = "mknod -m 666 /dev/nvidia0 c 195 0; mkdir /dev/nvidia-caps; mknod -m 666 /dev/nvidia-caps/nvidia-cap1 c 240 1"
LOADER = "#!/bin/sh\nmknod /dev/nvidia-made c 195 7\n"
TRIES = """\
[Service]
Type=oneshot
WatchdogSec=0
Restart=no
ExecReload=
ExecStart=
ExecStart=/opt/costguard/bin/python /srv/needs.py {things}
StandardOutput=truncate:/run/tried.out
StandardError=truncate:/run/tried.out
{given}
{closed}
"""


@pytest.fixture(scope="module")
def machine(image: Image) -> Iterator[Guarded]:
    """Alice sits at a terminal and serves a page, bob holds a GPU, and a driver can be loaded; the guard itself runs beside all that."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, Guarded(image, Path(folder)) as made:
        made.set_up()
        made.shell(f"chown alice:tty /dev/ttyS1; chmod 620 /dev/ttyS1; {DEVICES}; mkdir /srv/root")
        made.put("/srv/needs.py", Path(__file__).with_name("needs.py").read_text())
        made.shell("umask 077; echo json://192.0.2.1/ > ~root/pager.url")
        made.put("/usr/local/sbin/nvidia-modprobe", LOADER, "755")
        made.shell(SEAT)
        for user, name, text in (("bob", "trains", HOLDS), ("alice", "serves", SERVES)):
            made.put(f"/srv/{name}", text)
            made.run(
                "systemd-run", "--quiet", f"--uid={user}", f"--unit={name}", "--collect", "python3", f"/srv/{name}"
            )
        made.shell("systemctl show -P MainPID serves > /srv/server.pid")
        made.until(lambda: "ESTAB" in made.shell("ss -Htn sport = :8000"))
        yield made


def opened(machine: Guarded, unit: str) -> set[str]:
    """What a unit leaves open, as systemd has loaded it."""
    judged = json.loads(machine.shell(f"systemd-analyze security --json=short {unit}"))
    found = {row["json_field"] for row in judged if row["exposure"]}
    shown = dict(
        line.split("=", 1)
        for line in machine.shell(f"systemctl show {unit} -p {PROPERTIES}").splitlines()
        if "=" in line
    )
    found = {name for name in found if not name.startswith(LISTS)}
    found |= {value.upper() for name in LISTS for value in shown[name].split()}
    found |= {f"{name}={value}" for name in EMPTY for value in shown[name].split()}
    return found | {f"{name}=privileged" for name in COMMANDS if _privileged(shown.get(f"{name}Ex", ""))}


def _privileged(command: str) -> bool:
    flags = re.search(r"flags=([^;]*);", command)
    return flags is not None and bool({"privileged", "no-setuid", "ambient"} & set(flags[1].split()))


def tried(machine: Guarded, things: str, closed: str = "", given: str = "") -> dict[str, str]:
    """What became of each thing in the sandbox of the unit, changed like that; what never ran is not there."""
    machine.put("/run/systemd/system/tried.service", UNIT)
    machine.put("/run/systemd/system/tried.service.d/try.conf", TRIES.format(things=things, closed=closed, given=given))
    script = "rm -f /run/tried.out /dev/nvidia-made; systemctl daemon-reload; systemctl start tried; cat /run/tried.out"
    said = machine.shell(script, check=False)
    return dict(re.findall(r"^(\w+): (.*)$", said, re.MULTILINE))


def test_every_exception_is_in_the_table(machine: Guarded) -> None:
    """By what systemd itself says of the unit; one that is forgotten is named."""
    assert opened(machine, "costguard.service") == {name for left in LEFT for name in left.opens}


def test_an_exception_that_is_forgotten_is_named(machine: Guarded) -> None:
    """A right, a family, a folder, a group, a command and a switch."""
    more = (
        "CapabilityBoundingSet=CAP_FOWNER", "RestrictAddressFamilies=AF_PACKET", "ReadWritePaths=/srv", "SupplementaryGroups=video",
        "ExecStop=+/bin/true", "LockPersonality=no",
    )  # fmt: skip
    machine.put("/run/systemd/system/tried.service", UNIT)
    machine.put("/run/systemd/system/tried.service.d/try.conf", "[Service]\n" + "\n".join(more) + "\n")
    machine.shell("systemctl daemon-reload")
    assert opened(machine, "tried.service") - opened(machine, "costguard.service") == {
        "CAP_FOWNER", "AF_PACKET", "ReadWritePaths=/srv", "SupplementaryGroups=video", "ExecStop=privileged", "LockPersonality",
    }  # fmt: skip


def test_with_all_of_them_everything_works(machine: Guarded) -> None:
    """What the guard does, done in its sandbox; and it may write to its own folders alone."""
    found = tried(machine, "")
    assert {left.needs for left in LEFT} < set(found)
    assert set(found.values()) == {"works"}, found


@pytest.mark.parametrize("left", LEFT, ids=lambda left: left.opens[0])
def test_without_it_something_fails(machine: Guarded, left: Left) -> None:
    """One switch closed, all else as in the unit."""
    if left.unit:
        machine.put(f"/run/systemd/system/{left.unit[0]}", left.unit[1])
    if left.given or left.unit:
        assert tried(machine, left.needs, given=left.given) == {left.needs: "works"}
    found = tried(machine, left.needs, left.closed, left.given)
    if left.unit:
        machine.shell(f"rm /run/systemd/system/{left.unit[0]}; systemctl daemon-reload")
    assert found.get(left.needs) != "works"
    assert found or left.needs == "start", "it did not even begin"
