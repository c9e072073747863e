"""The script that puts costguard on a machine: with a folder in place of the root, and a stand-in for systemctl."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from costguard.doctor.service import SHIPPED
from tests.terraform.imageroot import pack

SCRIPT = Path(__file__).parents[2] / "terraform/machine/provision.sh"
UNIT = "etc/systemd/system/costguard.service"
CONFIG = "etc/costguard/config.toml"
SYSTEMCTL = """\
#!/bin/sh
echo "$@" >>"$PROVISION_ROOT/systemctl.log"
"""


class Machine:
    """A root folder; ``costguard`` is on its image unless ``bare``."""

    def __init__(self, root: Path, *, bare: bool = False) -> None:
        self.root = root / "machine"
        self.log = self.root / "systemctl.log"
        tools = root / "tools"
        tools.mkdir()
        (self.root / "etc").mkdir(parents=True)
        (tools / "systemctl").write_text(SYSTEMCTL, encoding="utf-8")
        (tools / "systemctl").chmod(0o755)
        places = (tools, *(() if bare else (Path(sys.executable).parent,)), "/usr/local/bin", "/usr/bin", "/bin")
        self.environment = {"PATH": os.pathsep.join(map(str, places)), "PROVISION_ROOT": str(self.root)}

    def provision(self, *words: str, config: str = "") -> subprocess.CompletedProcess[str]:
        """Runs the script as user data does: from its text, with what follows it left alone."""
        given = ("--config", base64.b64encode(config.encode()).decode()) if config else ()
        command = ["bash", str(SCRIPT), *words, *given]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    def asked(self) -> list[str]:
        """What systemctl was asked since the last time."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_baked_image_is_configured_and_started_once(machine: Machine) -> None:
    """With the very unit that `install` writes by hand. At the second boot nothing has changed, so nothing is restarted; a new setting restarts it."""
    done = machine.provision("--extra", "aws", config='mode = "dry-run"\n')
    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.text(CONFIG) == 'mode = "dry-run"\n'
    start = f"ExecStart={Path(sys.executable).parent}/costguard run"
    assert machine.text(UNIT) == Path(SHIPPED).read_text().replace("ExecStart=/usr/bin/env costguard run", start)
    asked = ["enable --quiet costguard.service", "restart costguard.service"]
    assert machine.asked() == asked
    again = machine.provision("--extra", "aws", config='mode = "dry-run"\n')
    assert (again.stdout, machine.asked()) == ("costguard: unchanged\n", ["start costguard.service"])
    changed = machine.provision("--extra", "aws", config='mode = "dry-run"\ngrace = "15m"\n')
    assert changed.returncode == 0, changed.stderr
    assert machine.asked() == asked
    assert "15m" in machine.text(CONFIG)


def test_a_file_of_config_d_counts_for_what_holds_and_for_what_changed(machine: Machine) -> None:
    """A channel of the team's file makes live mode whole; another team's file restarts the service."""
    team = machine.root / "etc/costguard/config.d/50-team.toml"
    team.parent.mkdir(parents=True)
    team.write_text("notify.local_only = true\n", encoding="utf-8")
    machine.provision("--extra", "aws", config='mode = "dry-run"\n')
    done = machine.provision("--extra", "aws", config='mode = "live"\n')
    assert machine.text(CONFIG) == 'mode = "live"\n', done.stdout + done.stderr
    machine.asked()
    machine.provision("--extra", "aws", config='mode = "live"\n')
    assert machine.asked() == ["start costguard.service"]
    team.write_text('notify.local_only = true\ngrace = "20m"\n', encoding="utf-8")
    machine.provision("--extra", "aws", config='mode = "live"\n')
    assert "restart costguard.service" in machine.asked()


def test_what_somebody_changed_on_the_machine_stays(machine: Machine) -> None:
    """A boot does not take back what a person wrote; what would be written lies beside it."""
    machine.provision("--extra", "gcp", config='grace = "15m"\n')
    (machine.root / CONFIG).write_text('grace = "30m"\n', encoding="utf-8")
    done = machine.provision("--extra", "gcp", config='grace = "20m"\n')
    assert done.returncode == 0, done.stderr
    assert "was changed on this machine and stays" in done.stdout
    assert machine.text(CONFIG) == 'grace = "30m"\n'
    assert machine.text(f"{CONFIG}.new") == 'grace = "20m"\n'


def test_the_images_own_configuration_is_kept_beside(machine: Machine) -> None:
    """User data is for this machine, and says more than its image."""
    file = machine.root / CONFIG
    file.parent.mkdir(parents=True)
    file.write_text('grace = "30m"\n', encoding="utf-8")
    done = machine.provision("--extra", "gcp", config='grace = "20m"\n')
    assert (machine.text(CONFIG), machine.text(f"{CONFIG}.before")) == ('grace = "20m"\n', 'grace = "30m"\n')
    assert f"what it said is in {file}.before" in done.stdout
    again = machine.provision("--extra", "gcp", config='grace = "25m"\n')
    assert (machine.text(f"{CONFIG}.before"), ".before" in again.stdout) == ('grace = "30m"\n', False)


def test_a_configuration_that_does_not_hold_replaces_none_that_does(machine: Machine) -> None:
    """The old one stays, the service stays as it is, and the script fails with the reason."""
    machine.provision("--extra", "gcp", config='grace = "15m"\n')
    machine.asked()
    done = machine.provision("--extra", "gcp", config='grace = "later"\n')
    assert done.returncode == 3
    assert "NOT PROVISIONED: the new configuration" in done.stderr
    assert "'later' is not a duration" in done.stdout + done.stderr
    assert (machine.text(CONFIG), machine.asked()) == ('grace = "15m"\n', [])


def test_baking_starts_nothing(machine: Machine) -> None:
    """An image build has no GPU, and its own start is no machine's."""
    assert machine.provision("--extra", "azure", "--bake").returncode == 0
    assert machine.asked() == ["enable --quiet costguard.service"]
    assert 'mode = "dry-run"' in machine.text(CONFIG), "`install` writes one where there is none"


def test_it_is_installed_as_by_hand(machine: Machine) -> None:
    """So `costguard uninstall` takes it back, and what somebody changed in the unit stays and is named."""
    machine.provision("--extra", "gcp", config='grace = "15m"\n')
    assert f"ExecStart={Path(sys.executable).parent}/costguard run" in machine.text(UNIT)
    assert (machine.root / "usr/local/share/bash-completion/completions/costguard").exists()
    assert machine.text(CONFIG) == 'grace = "15m"\n'
    (machine.root / UNIT).write_text("# mine\n", encoding="utf-8")
    done = machine.provision("--extra", "gcp", config='grace = "15m"\n')
    assert f"Changed on this machine, and left alone: /{UNIT};" in done.stdout
    assert machine.text(UNIT) == "# mine\n"
    uninstall = [str(Path(sys.executable).with_name("costguard")), "uninstall", "--purge", "--root", str(machine.root)]
    subprocess.run(uninstall, check=True, capture_output=True, timeout=60)
    left = [path for path in machine.root.rglob("*") if "costguard" in path.name and path.is_file()]
    assert left == []


def test_it_says_how_it_is_called(machine: Machine) -> None:
    """Without root and without changing anything."""
    done = machine.provision("--help")
    assert (done.returncode, done.stderr, list(machine.root.rglob("*"))) == (0, "", [machine.root / "etc"])
    assert "\n  provision.sh --extra CLOUD [--wheel FROM" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--extra is missing; allowed: aws, gcp or azure"),
        (("--extra",), "--extra has no value"),
        (("--extra", "aws", "--weel", "x"), "unknown argument --weel"),
        (("--extra", "aws", "--wheel", "ftp://x/costguard_agent-1.whl", "--sha256", "0"), "neither an https:// address"),
        (("--extra", "aws", "--wheel", "/nowhere/costguard_agent-1.whl", "--sha256", "0"), "there is no /nowhere"),
        (("--extra", "aws", "--wheel", "/etc/hostname", "--sha256", "0"), "has another checksum than 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_done(machine: Machine, words: tuple[str, ...], said: str) -> None:
    """With a word that people can look for in the log of the boot."""
    done = machine.provision(*words)
    assert done.returncode == 3
    assert "costguard: NOT PROVISIONED: " in done.stderr
    assert said in done.stderr
    assert sorted(machine.root.rglob("*")) == [machine.root / "etc"]


def test_an_image_without_costguard_is_told(tmp_path: Path) -> None:
    """Nobody would else notice that the machine is not guarded."""
    done = Machine(tmp_path, bare=True).provision("--extra", "aws")
    assert (done.returncode, "costguard is not on this image: name its wheel" in done.stderr) == (3, True)


def test_an_image_on_which_sudo_does_not_look_into_usr_local(tmp_path: Path) -> None:
    """Amazon Linux: `install` has put its link there."""
    machine = Machine(tmp_path, bare=True)
    link = machine.root / "usr/local/bin/costguard"
    link.parent.mkdir(parents=True)
    link.symlink_to(Path(sys.executable).with_name("costguard"))
    machine.environment["PATH"] = f"{tmp_path}/tools:/usr/bin:/bin"
    assert machine.provision("--extra", "aws").returncode == 0


CURL = """\
#!/bin/sh
echo >>"$PROVISION_ROOT/tries"
[ "$(wc -l <"$PROVISION_ROOT/tries")" -gt {failing} ] || {{ echo "curl: (6) Could not resolve host" >&2; exit 6; }}
while [ "$1" != --output ]; do shift; done
cp {wheel} "$2"
"""


@pytest.mark.parametrize(("failing", "code"), [(0, 0), (5, 0), (6, 0), (7, 3)])
def test_a_network_that_comes_late_is_waited_for(tmp_path: Path, failing: int, code: int) -> None:
    """At a first boot names may not be known yet; the script runs once, so a machine that it gives up is never guarded. Its end is said."""
    machine = distribution(tmp_path, "apt-get", "python3.11")
    path, checksum = wheel(tmp_path, "1.0")
    tools = tmp_path / "tools"
    slept = 'echo "$1" >>"$PROVISION_ROOT/slept"'
    for name, text in {"curl": CURL.format(failing=failing, wheel=path), "sleep": f"#!/bin/sh\n{slept}\n"}.items():
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    (tools / "wc").symlink_to(str(shutil.which("wc")))
    address = f"https://files.example.org/{path.name}"
    words = ("--extra", "aws", "--wheel", address, "--sha256", checksum, "--wheels", str(tmp_path))
    done = machine.provision(*words)
    assert done.returncode == code, done.stdout + done.stderr
    paused = machine.text("slept").split() if failing else []
    assert paused == ["1", "2", "4", "8", "16", "32"][:failing]
    asked = machine.root / "packages.log"
    assert asked.exists() is (code == 0), "the distribution is asked only once there is a network"
    assert code == 0 or "NOT PROVISIONED: https://files.example.org/" in done.stderr


COSTGUARD = """\
import sys
from pathlib import Path

def main():
    if sys.argv[1] != "install":
        print("costguard {version}")
        return
    root = Path(sys.argv[sys.argv.index("--root") + 1])
    unit, link = root / "{unit}", root / "usr/local/bin/costguard"
    for path in (unit, link):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    unit.write_text("# {version}\\n")
    link.symlink_to(Path(sys.executable).with_name("costguard"))
"""
"""Stands for costguard: `install` writes a unit and a link, everything else says its version."""


def wheel(folder: Path, version: str) -> tuple[Path, str]:
    """A small costguard with all that the script needs of it, and its checksum."""
    path = folder / f"costguard_agent-{version}-py3-none-any.whl"
    info = f"costguard_agent-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("costguard/__init__.py", COSTGUARD.format(version=version, unit=UNIT))
        text = f"Metadata-Version: 2.1\nName: costguard-agent\nVersion: {version}\nProvides-Extra: aws\n"
        archive.writestr(f"{info}/METADATA", text)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\ncostguard = costguard:main\n")
        archive.writestr(f"{info}/RECORD", "")
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.thorough
def test_a_wheel_is_installed_upgraded_and_left_alone(tmp_path: Path) -> None:
    """Without an index, in an environment of its own; the version before stays beside the new one."""
    machine = Machine(tmp_path, bare=True)
    first, first_sum = wheel(tmp_path, "1.0")
    second, second_sum = wheel(tmp_path, "1.1")
    bundle = tmp_path / "wheels.tar.gz"
    pack(["pip"], tmp_path / "pip")
    with tarfile.open(bundle, "w:gz") as archive:
        for file in (first, *(tmp_path / "pip").iterdir()):
            archive.add(file, "wheels/" + file.name)
    bundle_sum = hashlib.sha256(bundle.read_bytes()).hexdigest()
    words = ("--extra", "aws", "--wheel", str(first), "--sha256", first_sum)
    air_gapped = (*words, "--wheels", str(bundle), "--wheels-sha256", bundle_sum)
    done = machine.provision(*air_gapped)
    assert done.returncode == 0, done.stdout + done.stderr
    link = machine.root / "usr/local/bin/costguard"
    assert subprocess.check_output([link, "version"], text=True) == "costguard 1.0\n"
    assert machine.text(UNIT) == "# 1.0\n"
    place = link.resolve()
    home = place.parents[1]
    assert list(home.glob("lib/*/site-packages/pip")), "the pip of the bundle installs itself, too"
    assert machine.provision(*air_gapped).stdout == "costguard: unchanged\n"
    upgrade = ("--extra", "aws", "--wheel", str(second), "--sha256", second_sum, "--wheels", str(tmp_path))
    assert machine.provision(*upgrade).returncode == 0
    assert subprocess.check_output([link, "version"], text=True) == "costguard 1.1\n"
    assert (machine.text(UNIT), place.exists()) == ("# 1.1\n", True)


TOOLS = (
    "bash", "base64", "cat", "chmod", "cmp", "cp", "cut", "dirname", "find", "gzip", "head", "id", "mkdir", "mktemp",
    "mv", "readlink", "rm", "sed", "sh", "sha256sum", "tar", "touch",
)  # fmt: skip
KNOWS = '#!/bin/sh\n[ "$1" = show ] && [ "$2" = "{package}" ]\n'
INSTALLS = """\
#!/bin/sh
echo "{name} $@" >>"$PROVISION_ROOT/packages.log"
case "$*" in *" install "*{package}*) cp {python} {tools}/{version} ;; esac
"""
INTERPRETER = """\
#!/bin/sh
bin=$(dirname "$0")
case "$2 $3" in
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip") cp "$0" "$bin/costguard" ;;
esac
"""
"""Stands for a Python that is new enough: makes an environment of itself, without the seconds that a real one takes."""


def distribution(root: Path, manager: str, version: str) -> Machine:
    """A machine whose Python is too old, and a stand-in of its package manager that has a newer one."""
    machine = Machine(root, bare=True)
    tools = root / "tools"
    machine.environment["PATH"] = str(tools)
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    package = f"{version}-venv" if manager == "apt-get" else version
    new = root / "new"
    new.write_text(INTERPRETER, encoding="utf-8")
    new.chmod(0o755)
    texts = {
        "python3": "#!/bin/sh\nexit 1\n",
        manager: INSTALLS.format(name=manager, package=package, python=new, tools=tools, version=version),
    }
    if manager == "apt-get":
        texts["apt-cache"] = KNOWS.format(package=package)
    for name, text in texts.items():
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    return machine


@pytest.mark.parametrize(
    ("manager", "version"),
    [("apt-get", "python3.11"), ("apt-get", "python3.12"), ("apt-get", "python3.13"), ("dnf", "python3.11")],
    ids=["Ubuntu 22.04, Debian 12", "Ubuntu 24.04", "Debian 13", "Amazon Linux 2023"],
)
def test_an_interpreter_comes_from_the_distribution(tmp_path: Path, manager: str, version: str) -> None:
    """Beside the system's own, from a package that the distribution has."""
    machine = distribution(tmp_path, manager, version)
    path, checksum = wheel(tmp_path, "1.0")
    done = machine.provision("--extra", "aws", "--wheel", str(path), "--sha256", checksum, "--wheels", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    packages = machine.text("packages.log").splitlines()
    assert next(line for line in packages if " install " in line).startswith(f"{manager} -q")
    assert any(version in line for line in packages)


def test_an_interpreter_of_its_own(tmp_path: Path) -> None:
    """For an image in whose reach there is none: a .tar.gz with bin/python3, whose checksum is compared; nothing is installed then."""
    machine = distribution(tmp_path, "apt-get", "python3.11")
    own = tmp_path / "python.tar.gz"
    with tarfile.open(own, "w:gz") as archive:
        archive.add(tmp_path / "new", "python/bin/python3")
    path, checksum = wheel(tmp_path, "1.0")
    installed = ("--extra", "aws", "--wheel", str(path), "--sha256", checksum, "--wheels", str(tmp_path))
    words = (*installed, "--python", str(own))
    refused = machine.provision(*words, "--python-sha256", "0" * 64)
    assert (refused.returncode, "has another checksum" in refused.stderr) == (3, True)
    assert not (machine.root / "packages.log").exists()
    done = machine.provision(*words, "--python-sha256", hashlib.sha256(own.read_bytes()).hexdigest())
    assert done.returncode == 0, done.stdout + done.stderr
    (python,) = (machine.root / "opt/costguard").glob("python-*/python/bin/python3")
    assert python.read_text(encoding="utf-8") == (tmp_path / "new").read_text(encoding="utf-8")
