"""Making it a service, and taking that back, below a folder that is the root of an image."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from costguard.cli import install, installation
from costguard.cli.main import main
from costguard.config.load import load


def run(verb: str, root: Path, *options: str) -> Result:
    if root.is_dir() and not (root / "etc").exists():
        (root / "usr").mkdir(exist_ok=True)  # by which the root of a system is known
    return CliRunner().invoke(main, [verb, "--root", str(root), *options])


def tree(root: Path) -> dict[str, str]:
    """Every path below, with its content, target or mode."""
    found = {}
    for path in sorted(path for path in root.rglob("*") if path != root / "usr"):
        name = str(path.relative_to(root))
        found[name] = os.readlink(path) if path.is_symlink() else oct(path.stat().st_mode) if path.is_dir() else path.read_text()  # fmt: skip
    return found


def test_a_dry_run_shows_every_file_and_writes_none(tmp_path: Path) -> None:
    """With its content: whoever asks decides by it."""
    said = run("install", tmp_path, "--dry-run")
    assert said.exit_code == 0, said.output
    assert tree(tmp_path) == {}
    run("install", tmp_path)
    written = {f"/{name}" for name, text in tree(tmp_path).items() if not text.startswith("0o4")}
    assert {line.split()[1].removeprefix(str(tmp_path)) for line in said.output.splitlines() if line.startswith("write ")} == written - {installation.MANIFEST}  # fmt: skip
    assert "    Type=notify" in said.output


def test_the_second_time_changes_nothing_and_uninstall_leaves_nothing(tmp_path: Path) -> None:
    """Folders that were there stay, those that it made go."""
    (tmp_path / "usr/local/share").mkdir(parents=True)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    before = tree(tmp_path)
    run("install", tmp_path)
    first = tree(tmp_path)
    again = run("install", tmp_path)
    assert tree(tmp_path) == first
    assert {line.split()[0] for line in again.output.splitlines() if line.split()[0] in {"write", "replace", "same"}} == {"same"}  # fmt: skip
    said = run("uninstall", tmp_path)
    assert said.exit_code == 0, said.output
    assert tree(tmp_path) == before


def killed(step: int, verb: str, root: Path) -> bool:
    """Run it in a process of its own that gets SIGKILL before it changes its files for the nth time; False: it was done before."""
    changes = {"os.mkdir", "os.chmod", "os.rename", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree"}
    left = step

    def hook(event: str, given: tuple[object, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(given[1], str) and given[1].startswith("w")
        if (writes or event in changes) and str(given[0]).startswith(str(root)):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    if (child := os.fork()) == 0:
        sys.addaudithook(hook)
        os._exit(run(verb, root).exit_code)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in {0, 3}
    return os.WIFSIGNALED(status)


def empty_image(folder: Path) -> Path:
    (folder / "etc/systemd/system").mkdir(parents=True)
    (folder / "usr/local").mkdir(parents=True)
    return folder


def older(root: Path) -> None:
    """What an earlier version has installed: other words of the unit, and as many files."""
    run("install", root)
    unit, record = root / installation.UNIT[1:], root / installation.MANIFEST[1:]
    unit.write_text(unit.read_text() + "# of an earlier version\n")
    known = json.loads(record.read_text())
    known["pieces"][installation.UNIT] = installation.Piece("", unit.read_text()).digest
    del known["earlier"]
    record.write_text(json.dumps(known))


@pytest.mark.parametrize("again", [False, True], ids=["uninstall alone", "install and uninstall"])
@pytest.mark.parametrize("begun", ["install", "upgrade", "uninstall"])
def test_whatever_is_interrupted_can_be_taken_back_whole(tmp_path: Path, begun: str, again: bool) -> None:
    """Killed before each of its steps: no guard that somebody removed comes back at the next boot."""
    before = tree(empty_image(tmp_path / "before"))
    steps = 0
    while True:
        root = empty_image(tmp_path / str(steps))
        if begun != "install":
            older(root)
        if not killed(steps, "uninstall" if begun == "uninstall" else "install", root):
            break
        if again:
            assert run("install", root).exit_code == 0
        said = run("uninstall", root)
        assert tree(root) == before, f"after step {steps}: {said.output}"
        shutil.rmtree(root)
        steps += 1
    assert steps >= {"install": 20, "upgrade": 5, "uninstall": 10}[begun]


def test_an_upgrade_that_was_interrupted_is_still_one(tmp_path: Path) -> None:
    """Its unit is there, and what runs is that of before: the next `install` restarts it."""
    root = empty_image(tmp_path / "image")
    older(root)
    steps = 0
    while "earlier version" in (root / installation.UNIT[1:]).read_text():
        assert killed(steps, "install", root)
        steps += 1
    noted = installation.Manifest.read(str(root))
    assert install.is_changed([installation.UNIT], {installation.UNIT: "same"}, noted)
    run("install", root)
    noted = installation.Manifest.read(str(root))
    assert not install.is_changed([installation.UNIT], {installation.UNIT: "same"}, noted)


def test_what_is_ours_without_a_record_is_taken_back_too(tmp_path: Path) -> None:
    """An earlier version wrote its record last: one that was interrupted then left a guard that nothing removed."""
    before = tree(empty_image(tmp_path))
    run("install", tmp_path)
    (tmp_path / installation.MANIFEST[1:]).unlink()
    run("install", tmp_path)
    run("uninstall", tmp_path, "--purge")
    left = [path for path in tree(tmp_path) if path not in before and not (tmp_path / path).is_dir()]
    assert left in ([], [installation.COMMAND[1:]])  # an owner may have made that link himself


def test_a_command_that_the_owner_has_linked_himself_stays(tmp_path: Path) -> None:
    """As an image does before `install`, with the very same target: what was there before is there afterwards."""
    root = empty_image(tmp_path)
    run("install", root)
    command = root / installation.COMMAND[1:]
    if not command.is_symlink():
        command.parent.mkdir(parents=True, exist_ok=True)
        command.symlink_to(installation.script(judged=False)[0])
    target = os.readlink(command)
    run("uninstall", root, "--purge")
    command.parent.mkdir(parents=True, exist_ok=True)
    command.unlink(missing_ok=True)
    command.symlink_to(target)
    before = tree(root)
    run("install", root)
    run("uninstall", root, "--purge")
    assert tree(root) == before


def test_what_somebody_has_changed_stays_and_is_named(tmp_path: Path) -> None:
    """The configuration always; the unit until it is forced, or purged."""
    run("install", tmp_path)
    unit, configuration = (tmp_path / path[1:] for path in (installation.UNIT, installation.CONFIGURATION))
    for file in (unit, configuration):
        file.write_text(file.read_text() + "# mine\n")
    said = run("install", tmp_path)
    assert f"left alone: {installation.UNIT};" in said.output
    assert unit.read_text().endswith("# mine\n")
    run("install", tmp_path, "--force")
    assert not unit.read_text().endswith("# mine\n")
    assert configuration.read_text().endswith("# mine\n")
    left = run("uninstall", tmp_path)
    assert f"Left: {installation.CONFIGURATION};" in left.output
    assert [name for name in tree(tmp_path) if "costguard" in name] == ["etc/costguard", "etc/costguard/config.toml"]


def test_purge_removes_the_configuration_and_the_history_too(tmp_path: Path) -> None:
    """What `uninstall` would keep is gone when that is asked for."""
    run("install", tmp_path)
    (tmp_path / installation.CONFIGURATION[1:]).write_text("# mine\n")
    (tmp_path / "var/lib/costguard").mkdir(parents=True)
    run("uninstall", tmp_path, "--purge")
    assert [name for name in tree(tmp_path) if "costguard" in name] == []


def test_purge_removes_what_an_earlier_installation_made(tmp_path: Path) -> None:
    """The second one finds the folder of the configuration, and the second uninstall leaves none."""
    run("install", tmp_path)
    (tmp_path / installation.CONFIGURATION[1:]).write_text("# mine\n")
    run("uninstall", tmp_path)
    run("install", tmp_path)
    said = run("uninstall", tmp_path, "--purge")
    assert "Nothing of it is left" in said.output
    assert [name for name in tree(tmp_path) if "costguard" in name] == []


def test_what_its_owner_put_beside_the_configuration_is_named_as_left(tmp_path: Path) -> None:
    """An address of a channel is a secret, and never goes by itself; files of config.d are configuration."""
    run("install", tmp_path)
    etc = tmp_path / "etc/costguard"
    (etc / "config.d").mkdir()
    (etc / "config.d/team.toml").write_text("")
    (etc / "team.urls").write_text("")
    assert "Left: /etc/costguard/config.d, /etc/costguard/team.urls;" in run("uninstall", tmp_path).output
    run("install", tmp_path)
    assert "Left: /etc/costguard/team.urls;" in run("uninstall", tmp_path, "--purge").output
    assert [path.name for path in etc.iterdir()] == ["team.urls"]


def test_a_configuration_that_was_there_before_is_never_touched(tmp_path: Path) -> None:
    """It is named as left, and removed only where that is asked for."""
    file = tmp_path / installation.CONFIGURATION[1:]
    file.parent.mkdir(parents=True)
    file.write_text('mode = "live"\n')
    assert f"keep    {file}" in run("install", tmp_path).output
    assert f"Left: {installation.CONFIGURATION};" in run("uninstall", tmp_path).output
    assert file.read_text() == 'mode = "live"\n'
    run("install", tmp_path)
    run("uninstall", tmp_path, "--purge")
    assert not file.exists()


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_root_that_is_not_there_is_told(tmp_path: Path, verb: str) -> None:
    """A slip in its name makes no folders, and ends at once."""
    said = run(verb, tmp_path / "no-image")
    assert (said.exit_code, "there is no folder" in said.output, list(tmp_path.iterdir())) == (2, True, [])


def test_without_an_installation_nothing_is_removed(tmp_path: Path) -> None:
    """What was copied by hand is no business of it."""
    said = run("uninstall", tmp_path)
    assert (said.exit_code, "has installed nothing here" in said.output) == (3, True)


def test_an_installation_that_only_root_can_run_is_noticed(short_path: Path) -> None:
    """Who works on the machine could not hold it: the folder is named, through links, too."""
    folder = short_path / "venv/bin"
    folder.mkdir(parents=True)
    short_path.chmod(0o755)
    command, link = folder / "costguard", short_path / "link"
    command.touch(0o755)
    link.symlink_to(command)
    assert installation.first_closed([str(link), "/usr/bin/env"]) == ""
    folder.chmod(0o750)
    assert installation.first_closed(["/usr/bin/env", str(link)]) == str(folder)


def test_a_guard_that_others_starve_may_start_slowly_and_install_waits_for_it(tmp_path: Path) -> None:
    """Where an ordinary user keeps the only processor busy: ended after 90 s, no start ever succeeded on a machine that booted."""
    run("install", tmp_path)
    unit = (tmp_path / "etc/systemd/system/costguard.service").read_text()
    limits = dict(re.findall(r"^(Timeout\w+)=(\d+)$", unit, re.MULTILINE))
    assert int(limits["TimeoutStartSec"]) >= 240
    assert int(limits["TimeoutStartSec"]) + int(limits["TimeoutStopSec"]) < install.SECONDS


def test_the_unit_starts_this_very_installation(tmp_path: Path) -> None:
    """Whatever PATH a service has."""
    run("install", tmp_path)
    unit = (tmp_path / installation.UNIT[1:]).read_text()
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    words = line.removeprefix("ExecStart=").replace('"', "").split()
    assert words[-1] == "run"
    assert Path(words[0]).parent == Path(sys.executable).parent
    assert (tmp_path / installation.ENABLED[1:]).readlink() == Path(installation.UNIT)


@pytest.mark.parametrize("path", ["/opt/my tools/costguard", "/opt/50%/costguard", "/opt/$HOME/costguard"])
def test_the_unit_names_a_path_with_any_sign_in_it(path: str) -> None:
    """As systemd reads it."""
    unit = next(piece.content for piece in installation.pieces([path], "") if piece.path == installation.UNIT)
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert line == f'ExecStart="{path.replace("%", "%%").replace("$", "$$")}" run'


def test_the_short_configuration_is_valid_and_short(tmp_path: Path) -> None:
    """Twelve lines at most; with the lines in it that are only proposed, too."""
    run("install", tmp_path)
    file = tmp_path / installation.CONFIGURATION[1:]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    text = file.read_text()
    assert len(text.splitlines()) <= 12
    assert load({"config": str(file)}, {}).settings.mode == "dry-run"
    urls = tmp_path / "team.urls"
    urls.write_text("json://127.0.0.1/\n")
    urls.chmod(0o600)
    lines = [line.removeprefix("# ") if line.startswith("# ") and ("=" in line or "[" in line) and ":" not in line.split("=")[0] else line for line in text.splitlines()]  # fmt: skip
    file.write_text("\n".join(lines).replace("/etc/costguard/team.urls", str(urls)))
    assert list(load({"config": str(file)}, {}).settings.notify.channels) == ["team"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_ask_costguard_itself(shell: str, tmp_path: Path) -> None:
    """Each is the shell's own language, where that shell is there to judge."""
    script = tmp_path / "script"
    script.write_text(installation.completion(shell))
    assert "_COSTGUARD_COMPLETE" in script.read_text()
    if found := shutil.which(shell):
        subprocess.run([found, "-n", script], check=True)


COMPLETES = {
    "bash": "source {0}; COMP_WORDS=(costguard hold --un) COMP_CWORD=2; _costguard_completion costguard; echo ${{COMPREPLY[@]}}",
    "fish": "source {0}; complete -C 'costguard hold --un'",
}


@pytest.mark.parametrize("shell", COMPLETES)
def test_a_shell_completes_an_option_with_its_whole_description(shell: str, tmp_path: Path) -> None:
    """As somebody types it, with what `install` puts there; fish shows descriptions, with their commas."""
    found = shutil.which(shell) or pytest.skip(f"no {shell} here")
    run("install", tmp_path)
    script = f"{tmp_path}{installation.COMPLETIONS[shell]}"
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    argv = [found, "-c", COMPLETES[shell].format(script)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, env=os.environ | own).stdout
    assert said.split()[0] == "--until"
    assert shell == "bash" or "18:00, " in said, said


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A root with a secret in it, under a name that means something to systemd."""
    secret = tmp_path / "etc/costguard/50% pager.url"
    secret.parent.mkdir(parents=True)
    secret.write_text("json://127.0.0.1/\n")
    secret.chmod(0o600)
    return tmp_path


GIVEN = "/etc/costguard/50% pager.url"


def test_a_credential_is_handed_to_the_service_and_taken_back(image: Path) -> None:
    """A drop-in for each, which later runs leave there; the secret itself stays its owner's."""
    run("install", image)
    before = tree(image)
    said = run("install", image, "--credential", f"pager:{GIVEN}", "--credential", f"team.2:{GIVEN}")
    assert said.exit_code == 0, said.output
    drop_ins = sorted((image / installation.DROP_INS[1:]).iterdir())
    assert [path.name for path in drop_ins] == ["credential-pager.conf", "credential-team.2.conf"]
    assert "LoadCredential=pager:/etc/costguard/50%% pager.url\n" in drop_ins[0].read_text()
    written = tree(image)
    run("install", image)
    assert tree(image) == written
    said = run("uninstall", image)
    assert f"Left: {GIVEN};" in said.output
    assert [path for path in tree(image) if path in before or path.startswith("etc/systemd")] == ["etc", "etc/costguard", GIVEN[1:]]  # fmt: skip


def test_systemd_takes_the_unit_with_its_credentials(image: Path) -> None:
    """Where there is a systemd to judge; a slip in a drop-in would only be a line of the journal."""
    run("install", image, "--credential", f"pager:{GIVEN}")
    if found := shutil.which("systemd-analyze"):
        verify = [found, "verify", str(image / installation.UNIT[1:])]
        done = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, "costguard" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("pager", "it is not NAME:/PATH"), (f"my pager:{GIVEN}", "it is not NAME:/PATH"), ("pager:etc/x", "it is not NAME:/PATH"),
        (f":{GIVEN}", "it is not NAME:/PATH"), (f"../x:{GIVEN}", "it is not NAME:/PATH"), (f"pager:{GIVEN}\nExecStart=/x", "it is not"),
        ("pager:/etc/none", "there is no file /etc/none"), ("pager:/etc", "there is no file /etc"),
        ("pager:/etc/costguard/open.url", "others can read or change"),
    ],
)  # fmt: skip
def test_a_credential_that_the_service_could_not_use_is_refused(image: Path, given: str, words: str) -> None:
    """Before anything is written: a service that does not start guards nothing."""
    (image / "etc/costguard/open.url").write_text("x")
    (image / "etc/costguard/open.url").chmod(0o640)
    before = tree(image)
    said = run("install", image, "--credential", given)
    assert (said.exit_code, words in said.output, tree(image) == before) == (2, True, True), said.output


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    """It says what to do."""
    run("install", tmp_path)
    (tmp_path / installation.MANIFEST[1:]).write_text(json.dumps([]))
    said = run("uninstall", tmp_path)
    assert (said.exit_code, "is damaged" in said.output) == (3, True)


@pytest.mark.parametrize(("runs", "new", "told"), [("older", True, True), ("this", False, False), ("", True, False)])
def test_a_service_with_older_code_than_what_lies_here_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: str, new: bool, told: bool
) -> None:
    """An upgrade in place changes no unit, so nothing else would start the service again; one that is off is no matter."""
    older = subprocess.Popen(["sleep", "60"])
    try:
        time.sleep(1.5)  # dates of files cannot be set back or ahead, and a second is no difference
        systemctl = tmp_path / "systemctl"
        systemctl.write_text(f"#!/bin/sh\necho {({'older': older.pid, 'this': os.getpid()}).get(runs, 0)}\n")
        systemctl.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        assert installation.runs_old_code("costguard.service", str(systemctl) if new else "/bin/sh") is told
    finally:
        older.kill()
        older.wait()


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_folder_that_is_no_root_of_a_system_is_refused(tmp_path: Path, verb: str) -> None:
    """Such as the folder beside the one that was meant."""
    said = CliRunner().invoke(main, [verb, "--root", str(tmp_path)])
    assert (said.exit_code, "is not the root of a system" in said.output, list(tmp_path.iterdir())) == (2, True, [])


def test_an_image_without_costguard_is_told(tmp_path: Path) -> None:
    """Its service would start what is not there."""
    assert "which the service starts, is not in" in run("install", tmp_path).output
    program = tmp_path / installation.script(judged=False)[0][1:]
    program.parent.mkdir(parents=True)
    program.touch()
    assert "which the service starts, is not in" not in run("install", tmp_path).output


def test_the_next_step_after_a_dry_run_is_the_same_command(image: Path) -> None:
    """It would act on this machine instead of the image, or without what was asked for."""
    given = ("--force", "--no-start", "--credential", f"pager:{GIVEN}")
    said = run("install", image, "--dry-run", *given)
    assert said.output.endswith(
        f"Next: `sudo costguard install --root {image} --force --no-start --credential 'pager:{GIVEN}'`.\n"
    )
    run("install", image)
    said = run("uninstall", image, "--dry-run", "--purge")
    assert said.output.endswith(f"Next: `sudo costguard uninstall --root {image} --purge`.\n")
