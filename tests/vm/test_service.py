"""The service on a machine that booted: the shipped unit forbids what the guard does not need, and nothing that it needs."""

import os
import re

import pytest

from costguard.testing.nvml import Process
from tests.vm.guarded import CONFIGURATION, Guarded

pytestmark = pytest.mark.timeout(1800)

LIVE = (
    CONFIGURATION.replace("dry-run", "live")
    .replace('kill_duration = "1m"', 'kill_duration = "10m"')
    .replace('boot_grace = "10s"', 'boot_grace = "10m"')
)
COMMAND = """
[actions.command]
run = ["/usr/local/bin/owners", "command"]
timeout = "60s"

[hooks]
pre_stop = ["/usr/local/bin/owners", "hook"]
timeout = "20s"
"""
PROBE = """
[senses.probe]
run = ["/usr/local/bin/probe"]
user = "alice"
every = "10m"
"""
OURS = (
    "/usr/local/bin/owners", "/usr/local/bin/owners.hook", "/usr/local/bin/owners.command", "/usr/local/bin/probe",
    "/srv", "/etc/systemd/system/costguard.service.d", "/var/fill", "/var/lib/systemd", "/var/lib/private",
    "/etc/resolv.conf", "/etc/machine-id",
)  # fmt: skip
WITHIN = ("/srv/", "/home/", "/etc/systemd/system/costguard.service.d/", "/var/lib/systemd/")
"""What the tests themselves, and systemd, have written meanwhile."""
HOLDS = """\
import os, time
os.open("/dev/nvidia0", os.O_PATH)
open("/tmp/holds", "w").close()
time.sleep(10000)
"""
"""Has the device of a GPU open, as far as that goes without its driver."""

TYPES = """\
import os, pty, time
child, keys = pty.fork()
if child == 0:
    own = os.open("/dev/tty", os.O_RDWR)
    while True:
        os.read(own, 100)
while True:
    time.sleep(5)
    os.write(keys, b"x\\n")
"""
"""Types on a terminal of its own, for a program that reads /dev/tty."""

TOLD_SECONDS = 300.0
OWNERS = """\
#!/bin/bash
. /usr/local/bin/owners.$1
"""


def test_the_unit_is_valid_and_exposes_little(guarded: Guarded) -> None:
    """By systemd's own judgement of the unit as it is loaded."""
    assert guarded.shell("systemd-analyze verify /etc/systemd/system/costguard.service").strip() == ""
    said = guarded.shell("systemd-analyze security costguard.service | tail -1")
    found = re.search(r"Overall exposure level for costguard.service: ([\d.]+)", said)
    assert found
    assert float(found[1]) <= 3.0


def test_a_credential_reaches_the_guard_and_nobody_else(guarded: Guarded) -> None:
    """As systemd hands it over; and uninstall takes the drop-in back, as the last test sees."""
    guarded.put("/srv/pager.url", "json://192.0.2.1/\n", "600")
    guarded.run("costguard", "install", "--credential", "pager:/srv/pager.url")
    guarded.until(guarded.sees_gpus)
    look = (
        "tr '\\0' '\\n' < /proc/$(systemctl show -P MainPID costguard)/environ | sed -n 's/^CREDENTIALS_DIRECTORY=//p'"
    )
    folder = guarded.shell(look).strip()
    assert guarded.shell(f"cat {folder}/pager") == "json://192.0.2.1/\n"
    assert "Permission denied" in guarded.shell(f"runuser -u alice -- cat {folder}/pager", check=False)


def test_it_is_active_and_an_ordinary_user_may_ask_and_hold(guarded: Guarded) -> None:
    """Who works on the machine sees why it is up, and can postpone the end."""
    assert guarded.shell("systemctl is-active costguard").strip() == "active"
    report = guarded.status(user="alice")
    assert report["agent"]["runtime_dir"] == "/run/costguard"
    assert all(gpu["known"] for gpu in report["gpus"])
    guarded.run("costguard", "hold", "1h", "--reason", "an experiment", user="alice")
    assert guarded.status(user="bob")["state"] == "HELD"
    guarded.run("costguard", "release", user="alice")


def test_doctor_says_what_only_root_may_see(guarded: Guarded) -> None:
    """Who may not see all is told neither that it is guarded nor that it is not, but whom to ask."""
    guarded.configure(LIVE.replace('mode = "live"', 'mode = "dry-run"'))  # nothing but the mode is missing
    guarded.until(lambda: guarded.status()["plans"])
    asked = {user: guarded.run("costguard", "doctor", user=user, check=False) for user in ("", "alice")}
    assert asked[""].code == 4, asked[""].output
    assert asked["alice"].code == 5, asked["alice"].output
    assert asked["alice"].output.startswith("CANNOT TELL as this user")
    guarded.configure(CONFIGURATION)


def test_a_warning_reaches_who_sits_at_a_console_without_an_entry_in_utmp(guarded: Guarded) -> None:
    """A serial console, a container's terminal: who works there is told by its processes."""
    guarded.sits()
    guarded.shell("mknod -m 666 /dev/nvidia0 c 195 0")
    guarded.put("/srv/trains", HOLDS)
    guarded.run("systemd-run", "--quiet", "--uid=bob", "--unit=trains", "--collect", "python3", "/srv/trains")
    guarded.until(lambda: guarded.run("test", "-e", "/tmp/holds", check=False).code == 0)
    pid = int(guarded.shell("systemctl show -P MainPID trains"))
    guarded.move(util=90, processes=[Process(pid)])
    guarded.until(lambda: guarded.status()["armed"])
    guarded.move(util=0)
    words = ("would be shut down", "python3 of bob (service trains)")
    guarded.until(lambda: all(map(guarded.told, words)), seconds=TOLD_SECONDS)
    guarded.shell("systemctl stop trains; rm /dev/nvidia0")
    guarded.move(util=90, processes=[])


def test_what_is_read_through_dev_tty_is_typed(guarded: Guarded) -> None:
    """Older kernels note it at that node alone, and an editor reads it there."""
    guarded.put("/srv/types", TYPES)
    guarded.run("systemd-run", "--quiet", "--uid=bob", "--unit=types", "--collect", "python3", "/srv/types")

    def typed() -> list[str]:
        senses = {sense["name"]: sense["active"] for sense in guarded.status()["agent"]["senses"]}
        return [one["what"] for one in senses["terminals"] if one["who"].startswith("bob on pts/")]

    guarded.until(lambda: typed() == ["typed"])
    guarded.shell("systemctl stop types")


def test_it_comes_back_after_a_kill_with_a_full_disk(guarded: Guarded) -> None:
    """With what it knew: a machine that was armed stays armed."""
    guarded.until(lambda: guarded.status()["armed"])
    guarded.shell("cat /dev/zero > /var/fill 2>/dev/null; df / | tail -1 | grep -q 100%")
    first = guarded.shell("systemctl show -P MainPID costguard")
    guarded.run("systemctl", "kill", "--signal=KILL", "costguard")
    guarded.until(lambda: guarded.shell("systemctl show -P MainPID costguard") not in {first, "0\n"})
    guarded.until(guarded.sees_gpus)
    assert guarded.status()["armed"]
    guarded.shell("rm /var/fill")


def test_no_trick_of_an_ordinary_user_keeps_it_from_coming_back(guarded: Guarded) -> None:
    """Locks, and files where it puts its own."""
    tricks = "for f in /run/costguard/* /var/lib/costguard/*; do flock -n $f sleep 600 & done; ln -s /etc/passwd /run/costguard/x; rm -f /run/costguard/control.sock; true"
    guarded.shell(f"runuser -u bob -- bash -c '{tricks}' >/dev/null 2>&1 &")
    guarded.shell("sleep 1; systemctl kill --signal=KILL costguard")
    guarded.until(
        lambda: guarded.shell("systemctl is-active costguard", check=False).strip() == "active" and guarded.sees_gpus()
    )
    guarded.shell("pkill -u bob flock; pkill -u bob sleep; true", check=False)


def test_a_live_shutdown_powers_off_and_the_next_boot_closes_the_incident(guarded: Guarded) -> None:
    """What was done is known afterwards."""
    guarded.configure(LIVE)
    guarded.shell("costguard stop --yes >/dev/null 2>&1 &")
    guarded.off()
    guarded.boot()
    guarded.move(util=0)  # its script was in memory
    guarded.run("systemctl", "restart", "costguard")
    guarded.until(guarded.sees_gpus)
    assert "closed" in guarded.shell("costguard history --json")


def test_a_hook_may_do_what_the_agent_may_not(guarded: Guarded) -> None:
    """It becomes another user and saves to homes and /srv. Nobody else sees what is in its environment, and a probe runs as its user."""
    guarded.put("/usr/local/bin/owners", OWNERS, "755")
    guarded.put("/usr/local/bin/probe", "#!/bin/sh\nid -un > ~alice/probed\n", "755")
    save = "sudo -u alice touch ~alice/saved; echo $COSTGUARD_REASON > /srv/saved; "
    look = "systemctl show -p Environment $(systemctl list-units --plain --no-legend 'costguard-*' | cut -d' ' -f1) > /srv/seen"
    guarded.put("/usr/local/bin/owners.hook", save + look + "\n")
    guarded.put("/usr/local/bin/owners.command", "id -un > /srv/command\n")
    guarded.configure(LIVE.replace('"shutdown"', '"command"').replace("[notify]", COMMAND + "\n[notify]") + PROBE)
    guarded.run("costguard", "stop", "--yes")
    assert (
        guarded.shell("stat -c %U ~alice/saved; cat /srv/saved /srv/command /srv/seen")
        == "alice\nperson\nroot\nEnvironment=\n"
    )
    guarded.until(lambda: guarded.shell("cat ~alice/probed", check=False) == "alice\n")


def test_a_hook_ends_with_its_time_and_a_command_with_the_agent(guarded: Guarded) -> None:
    """Nothing stays that nobody waits for, whatever session it has."""
    guarded.put("/usr/local/bin/owners.hook", "echo begun >> /srv/hook; setsid sleep 4311 & sleep 4312\n")
    guarded.put("/usr/local/bin/owners.command", "setsid sleep 4321 & sleep 4322\n")
    guarded.shell("costguard stop --yes >/srv/stop 2>&1 &")
    guarded.until(lambda: guarded.shell("pgrep -f 'sleep 432[2]'", check=False), seconds=240)
    assert guarded.shell("cat /srv/hook; pgrep -f 'sleep 431[12]'", check=False) == "begun\n"
    guarded.run("systemctl", "kill", "--signal=KILL", "costguard")
    guarded.until(lambda: not guarded.shell("pgrep -f 'sleep 432[12]'", check=False))


def test_uninstall_leaves_nothing_but_what_it_says(guarded: Guarded) -> None:
    """By every path of the disk, before and after; the comparison itself sees a file that is left."""
    said = guarded.shell("costguard uninstall").splitlines()[-1]
    assert (
        said
        == "Left: /etc/costguard/config.toml, /var/lib/costguard, /etc/systemd/system/costguard.service.d; `sudo rm -r` removes them."
    )
    named = ("/etc/costguard/config.toml", "/etc/costguard", "/var/lib/costguard")
    assert {path for path in left(guarded) if not path.startswith("/var/lib/costguard/")} == set(named)
    assert guarded.run("systemctl", "status", "costguard", check=False).code == 4  # no such unit
    guarded.run("costguard", "install", "--no-start")
    completion = "/etc/fish/completions/costguard.fish"
    guarded.shell(f"grep -q costguard {completion}; echo '# the owner was here' >> {completion}")
    said = guarded.shell("costguard uninstall --purge").splitlines()[-1]
    assert said == "Left: /etc/systemd/system/costguard.service.d; `sudo rm -r` removes them."
    assert left(guarded) == set()
    guarded.shell(f"mkdir -p {os.path.dirname(completion)}; touch {completion}")
    assert completion in left(guarded)


def left(guarded: Guarded) -> set[str]:
    """Every path that is there now, or is another one, and was not before the service was installed."""
    changed = {line.split()[0] for line in guarded.before ^ guarded.files()}
    return {path for path in changed if path not in OURS and not path.startswith(WITHIN)}
