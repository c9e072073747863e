"""Images: the templates are whole, and what they run leaves an image whose machines are machines of their own."""

import re
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hcl2
import pytest
from click.testing import CliRunner

from costguard.cli.main import main
from release import lock
from release.__main__ import collect
from tests.terraform.imageroot import ROOT, SAYS, ImageRoot, can_enter, pack

IMAGES = ROOT / "terraform/images"
NOT_CARRIED = shutil.ignore_patterns(".*", "__pycache__", "dist", "build", "tests", "bench")
BAKE = "bash /tmp/bake/bake.sh --extra aws --release /tmp/bake/dist --config /tmp/bake/dry-run.toml --air-gapped"
STATE = "var/lib/costguard"


def parsed(name: str) -> Mapping[str, Any]:
    """A template."""
    with (IMAGES / f"{name}.pkr.hcl").open(encoding="utf-8") as file:
        found: Mapping[str, Any] = hcl2.load(file)
    return found


def unquoted(word: str) -> str:
    """A name or a text, which the parser leaves in its quotes."""
    return word.removeprefix('"').removesuffix('"')


def blocks(name: str, kind: str) -> dict[str, Mapping[str, Any]]:
    """Blocks of a kind by their last label."""
    found = {}
    for block in parsed(name)[kind]:
        body, label = block, ""
        while len(body) == 1:
            ((label, body),) = body.items()
        found[unquoted(label)] = body
    return found


def test_every_variable_is_described_and_used() -> None:
    """One that nothing reads would promise what is not done."""
    declared = blocks("variables", "variable")
    texts = "".join((IMAGES / f"{name}.pkr.hcl").read_text(encoding="utf-8") for name in ("sources", "build"))
    assert set(re.findall(r"\bvar\.(\w+)", texts)) == declared.keys()
    page = (ROOT / "docs/images.md").read_text(encoding="utf-8")
    assert all(one["description"] and f"`{name}`" in page for name, one in declared.items())


def test_each_cloud_is_built_by_the_steps_that_are_tested() -> None:
    """A folder, the files, one script: nothing else runs on the machine that becomes the image."""
    (build,) = parsed("build")["build"]
    sources = [unquoted(one).split(".")[-1] for one in build["sources"]]
    assert sources == list(blocks("sources", "source")) == ["aws", "gcp", "azure", "home"], (
        "a cloud's has the name of its extra"
    )
    steps = [(unquoted(kind), step) for one in build["provisioner"] for kind, step in one.items()]
    commands = [unquoted(line) for kind, step in steps if kind == "shell" for line in step["inline"]]
    make, bake, clean = commands
    assert (make, clean) == ("mkdir -m 700 ${local.place} ${local.place}/release", "rm -rf ${local.place}")
    extra = re.escape('${source.name == "home" ? var.home_cloud : source.name}')
    assert re.match(rf"sudo bash \$\{{local.place\}}/bake.sh --extra {extra} --release \S+ --config \S+ ", bake)
    sent = [unquoted(step["source"]) for kind, step in steps if kind == "file"]
    assert all((IMAGES / path.removeprefix("${path.root}/")).is_file() for path in sent if "path.root" in path)
    assert len(steps) == len(sent) + 2


def test_the_machine_that_builds_leaves_no_key_and_has_no_rights() -> None:
    """Nothing of it may be a way into each machine of the image; Azure's agent removes the user itself."""
    sources = blocks("sources", "source")
    assert all(sources[name]["ssh_clear_authorized_keys"] for name in ("aws", "gcp", "home"))
    assert sources["gcp"]["disable_default_service_account"]
    assert "iam_instance_profile" not in sources["aws"]


def test_each_folder_for_this_computer_is_an_instance_with_a_key_of_its_own(tmp_path: Path) -> None:
    """What the template reads is there; a second run changes nothing, so whoever has the key still gets in."""
    for tool in ("ssh-keygen", "xorrisofs"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    made = []
    for name in ("one", "two"):
        for _ in range(2):
            subprocess.run(
                ["bash", IMAGES / "home.sh", name], cwd=tmp_path, check=True, capture_output=True, timeout=60
            )
            made.append({path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())})
    assert (made[0], made[2]) == (made[1], made[3])
    assert list(made[0]) == ["key", "key.pub", "meta-data", "seed.iso", "user-data"]
    assert made[0]["key.pub"].strip() in made[0]["user-data"]
    assert all(made[0][name] != made[2][name] for name in ("key", "meta-data"))
    assert (tmp_path / "one/key").stat().st_mode & 0o077 == 0
    read = {unquoted(path).removeprefix("${var.home}/") for path in blocks("sources", "source")["home"]["cd_files"]}
    assert read <= made[0].keys()


def test_an_image_is_a_dry_run_by_default() -> None:
    """And its configuration holds, as the agent judges it."""
    file = IMAGES / "dry-run.toml"
    done = CliRunner().invoke(main, ["config", "check", str(file)])
    assert done.exit_code == 0, done.output
    assert "Dry run: nothing is stopped" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--extra", "ovh"), "--extra is aws, gcp or azure"),
        (("--extra", "aws"), "--release is missing"),
        (("--extra", "aws", "--relase", "dist"), "unknown argument --relase"),
        (("--extra", "aws", "--release", "."), "is no release"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """In the builder's log, under a word that people can look for."""
    done = baked(tmp_path, *words)
    assert (done.returncode, done.stderr.startswith("costguard: NOT BAKED: ")) == (3, True)
    assert said in done.stderr


def test_a_release_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    """Another wheel than its checksum says; and no libraries, where no index may be asked."""
    wheel = tmp_path / "costguard_agent-1.0-py3-none-any.whl"
    wheel.write_text("a wheel\n", encoding="utf-8")
    sums = subprocess.run(["sha256sum", wheel.name], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "SHA256SUMS").write_text(sums, encoding="utf-8")
    words = ("--extra", "gcp", "--release", ".", "--air-gapped")
    assert "has no wheels/: `make wheels CLOUD=gcp`" in baked(tmp_path, *words).stderr
    wheel.write_text("another wheel\n", encoding="utf-8")
    assert "has other files than its SHA256SUMS says" in baked(tmp_path, *words).stderr


def baked(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The script alone, as root of nothing: it ends before it would write."""
    command = ["unshare", "--user", "--map-root-user", "bash", str(IMAGES / "bake.sh"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> ImageRoot:
    """A machine that was baked from a release, without any network; what was said lies in /said."""
    folder = tmp_path_factory.mktemp("image")
    shutil.copytree(ROOT, folder / "tree", ignore=NOT_CARRIED)
    release = folder / "root/tmp/bake/dist"
    lists = folder / "python"  # stands for the Python that lists what is inside: an image needs no list
    lists.write_text("#!/bin/sh\necho '{}'\n", encoding="utf-8")
    lists.chmod(0o755)
    collect(folder / "tree", release, 1_795_402_137, sys.executable, str(lists))
    pack([*lock.graph(lock.declared(["aws"])), "pip"], release / "wheels")
    root = ImageRoot(folder / "root")
    for script in (IMAGES / "bake.sh", IMAGES / "dry-run.toml", ROOT / "terraform/machine/provision.sh"):
        shutil.copy(script, root.folder / "tmp/bake")
    root.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    root.write("var/lib/dbus/machine-id", "0123456789abcdef0123456789abcdef\n")
    root.write("var/lib/systemd/random-seed", "seed")
    root.write("var/log/journal/0123456789abcdef0123456789abcdef/system.journal", "a log")
    root.write("etc/ssh/ssh_host_ed25519_key", "a key")
    root.write("etc/hostname", "builder\n")
    root.write("etc/ssh/sshd_config", "")
    root.program("cloud-init", SAYS.format(name="cloud-init"))
    done = root.run(BAKE)
    root.write("said", done.stdout + done.stderr)
    root.write("code", str(done.returncode))
    return root


needs_root = pytest.mark.skipif(
    not can_enter(), reason="programs must be root's for `costguard install`: run as root, with user namespaces"
)


@needs_root
@pytest.mark.thorough
def test_a_baked_image_has_a_service_that_was_seen_to_start(image: ImageRoot) -> None:
    """Without a GPU, an index, a network or the distribution's pip: the guard ran under its unit, and doctor said what it found."""
    assert image.text("code") == "0", image.text("said")
    assert image.text("said").endswith("costguard: baked: nothing of this machine is left in the image\n")
    assert "costguard: the service started, and starts at each boot" in image.text("said")
    assert "costguard.service starts it at every boot" in image.text("said")
    asked = image.text("systemctl.log").splitlines()
    assert [line for line in asked if line != "daemon-reload"] == [
        "enable --quiet costguard.service", "restart costguard.service", "stop costguard.service", "stop systemd-random-seed.service",
    ]  # fmt: skip
    assert (image.folder / "etc/systemd/system/multi-user.target.wants/costguard.service").is_symlink()
    assert 'mode = "dry-run"' in image.text("etc/costguard/config.toml")
    compiled = list((image.folder / "opt/costguard/versions").glob("*/lib/*/site-packages/costguard/__pycache__/*.pyc"))
    assert compiled, "no machine of the image compiles it again"


@needs_root
@pytest.mark.thorough
def test_nothing_of_the_machine_that_built_it_is_left(image: ImageRoot) -> None:
    """No id, no key, no seed, no log, no state, no drop-in that pretends a card."""
    assert image.text("etc/machine-id") == ""
    gone = (
        STATE, "run/costguard", "run/costguard-bake", "etc/systemd/system/costguard.service.d",
        "var/lib/dbus/machine-id", "var/lib/systemd/random-seed", "etc/ssh/ssh_host_ed25519_key",
        "var/log/journal/0123456789abcdef0123456789abcdef", "root/.cache/pip", "etc/hostname",
    )  # fmt: skip
    assert [path for path in gone if (image.folder / path).exists()] == []
    assert (image.folder / "etc/ssh/sshd_config").exists()
    assert image.text("others.log") == "journalctl --relinquish-var\ncloud-init clean --logs\n"


CARD = """
set -e
card=/run/card/bus/pci/devices/0000:01:00.0
mkdir -p $card /etc/systemd/system/costguard.service.d
echo 0x10de >$card/vendor; echo 0x030000 >$card/class
printf '[Service]\\nEnvironment=COSTGUARD_HOST__SYSFS=/run/card\\n' >/etc/systemd/system/costguard.service.d/card.conf
echo {id} >/etc/machine-id
systemctl start costguard.service
costguard hold 1h --reason test >&2
systemctl stop costguard.service
cat {state}/commitments.json
"""


def started(image: ImageRoot, folder: Path) -> ImageRoot:
    """A machine whose disk is a copy of the image's."""
    machine = ImageRoot(folder)
    for name in ("etc", "opt", "local", "var", "tmp"):
        shutil.copytree(image.folder / name, machine.folder / name, symlinks=True, dirs_exist_ok=True)
    return machine


@needs_root
@pytest.mark.thorough
def test_two_machines_of_one_image_are_two_machines(image: ImageRoot, tmp_path: Path) -> None:
    """Each has its own identity, and what one of them knows the other does not."""
    own = []
    for number in (1, 2):
        machine = started(image, tmp_path / str(number))
        own.append(machine.json(CARD.format(id=f"{number:032x}", state=f"/{STATE}")))
    assert own[0]["instance"] != own[1]["instance"]


USER_DATA = """
set -e
bash /tmp/bake/provision.sh --extra aws --config {config}
costguard config show
systemctl stop costguard.service
bash /tmp/bake/provision.sh --extra aws --config {config}
systemctl stop costguard.service
"""


@needs_root
@pytest.mark.thorough
def test_user_data_of_a_machine_takes_the_place_of_what_the_image_says(image: ImageRoot, tmp_path: Path) -> None:
    """It names no wheel: what is on the image is configured and started, and at the next boot nothing has changed."""
    machine = started(image, tmp_path)
    card = machine.write("run/card/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    card.with_name("class").write_text("0x030000\n", encoding="utf-8")
    drop_in = "etc/systemd/system/costguard.service.d/card.conf"
    machine.write(drop_in, "[Service]\nEnvironment=COSTGUARD_HOST__SYSFS=/run/card\n")
    config = b64encode(b'mode = "dry-run"\nkill_duration = "45m"\n').decode()
    done = machine.run(USER_DATA.format(config=config))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r'kill_duration *= *"45m"', done.stdout)
    assert re.findall("costguard: (the service runs|unchanged)", done.stdout) == ["the service runs", "unchanged"]
    assert machine.text("etc/costguard/config.toml").endswith('kill_duration = "45m"\n')


@needs_root
@pytest.mark.thorough
def test_an_image_whose_machines_would_not_be_guarded_is_not_made(image: ImageRoot, tmp_path: Path) -> None:
    """A service that nothing restarts is found by doctor, and the builder stops."""
    machine = started(image, tmp_path)
    machine.write("etc/systemd/system/costguard.service.d/mine.conf", "[Service]\nRestart=no\n")
    done = machine.run(BAKE)
    assert done.returncode == 3
    assert "so the guard stays down after a failure" in done.stderr
    assert "NOT BAKED: doctor finds" in done.stderr
