"""What sudo's listing allows."""

import os
from pathlib import Path

import pytest

from costguard.actions.init_rights import InitRight, ask, nopasswd

COMMAND = ("/usr/bin/systemctl", "poweroff")


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("(ALL) NOPASSWD: ALL", True),
        ("(ALL : ALL) NOPASSWD: ALL", True),
        ("(root) NOPASSWD: /usr/bin/systemctl poweroff", True),
        ("(root) NOPASSWD: /usr/bin/systemctl", True),
        ("(root) NOPASSWD: /usr/bin/systemctl *", True),
        ("(root) NOPASSWD: /bin/true, /usr/bin/systemctl poweroff", True),
        ("(root) NOPASSWD: SETENV: /usr/bin/systemctl poweroff", True),
        ("(ALL : ALL) ALL", False),
        ("(root) /usr/bin/systemctl poweroff", False),
        ("(root) NOPASSWD: /usr/bin/systemctl reboot", False),
        ("(root) NOPASSWD: /bin/true, PASSWD: /usr/bin/systemctl poweroff", False),
        ("(root) NOPASSWD: ALL, !/usr/bin/systemctl", False),
        ("(backup) NOPASSWD: ALL", False),
        ("NOPASSWD: ALL", False),
        ("", False),
    ],
)
def test_only_a_rule_for_root_without_password_counts(rule: str, allowed: bool) -> None:
    """A rule that would prompt is no permission: nobody is there to type."""
    listing = f"Matching Defaults entries for alice on box:\n    env_reset\n\nUser alice may run:\n    {rule}\n"
    assert nopasswd(listing, COMMAND) is allowed


def test_the_last_matching_rule_does_not_hide_a_free_one() -> None:
    """A user with a password rule for everything and a free rule for this command is allowed."""
    assert nopasswd("    (ALL) ALL\n    (root) NOPASSWD: /usr/bin/systemctl poweroff\n", COMMAND)


class User:
    """One who may not shut the machine down by himself, and the programs that he may ask."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self.uid = 1000
        monkeypatch.setenv("PATH", str(root))
        monkeypatch.setattr(os, "geteuid", lambda: self.uid)

    def has(self, name: str, script: str) -> None:
        path = self._root / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def ask(self, *, systemd: bool = True, new_privileges: bool = True) -> InitRight:
        return ask(("systemctl", "poweroff"), "CanPowerOff", systemd=systemd, new_privileges=new_privileges)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    return User(tmp_path, monkeypatch)


PLAIN, SUDO = ("systemctl", "poweroff"), ("sudo", "-n", "systemctl", "poweroff")
LOGIND = "[ \"$*\" = '--system call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager CanPowerOff' ] || exit 9; echo 's \"{}\"'"
WARNS = LOGIND.replace("echo 's", "echo Warning: no cache; echo 's").replace("{}", "yes")
FREE = "echo '    (root) NOPASSWD: ALL'"


@pytest.mark.parametrize(
    ("uid", "logind", "sudo", "systemd", "privileges", "command"),
    [
        (0, None, None, False, False, PLAIN), (1, None, None, True, True, ()), (1000, "yes", None, True, False, PLAIN), (1000, "warns", None, True, False, PLAIN), (1000, "yes", None, False, True, ()),
        (1000, "no", None, True, True, ()), (1000, "challenge", None, True, True, ()), (1000, "no", FREE, True, True, SUDO), (1000, None, FREE, False, True, SUDO),
        (1000, None, FREE, True, False, ()), (1000, None, "exit 1", True, True, ()), (1000, None, "echo '    (root) ALL'", True, True, ()),
        (1000, None, f'[ "$*" = "-n -l" ] && exit 1; {FREE}', True, True, ()), (1000, None, f'[ "$*" = "-n -l systemctl poweroff" ] && exit 1; {FREE}', True, True, ()),
    ],
)  # fmt: skip
def test_who_may_shut_it_down(
    user: User,
    uid: int,
    logind: str | None,
    sudo: str | None,
    systemd: bool,
    privileges: bool,
    command: tuple[str, ...],
) -> None:
    """Root; whom logind lets, where there is one; whom sudo lets without a password, where it can work."""
    user.uid = uid
    if logind is not None:
        user.has("busctl", WARNS if logind == "warns" else LOGIND.replace("{}", logind))
    if sudo is not None:
        user.has("sudo", sudo)
    found = user.ask(systemd=systemd, new_privileges=privileges)
    assert found.command == command
    assert bool(found.missing) is not bool(command)


def test_what_is_missing_is_named_as_sudo_reads_it(user: User, tmp_path: Path) -> None:
    """With the program's whole path where it is found; sudo is no way out where it cannot work."""
    rule = "ALL=(root) NOPASSWD: "
    assert user.ask().missing.endswith(f"{rule}systemctl poweroff")
    user.has("systemctl", "")
    assert user.ask().missing.endswith(f"{rule}{tmp_path}/systemctl poweroff")
    user.uid = 4_000_000_000
    assert f"add: #4000000000 {rule}" in user.ask().missing
    assert "NoNewPrivileges" in user.ask(new_privileges=False).missing


def test_a_program_that_cannot_be_asked_allows_nothing(user: User, tmp_path: Path) -> None:
    """Broken, or without an answer."""
    for broken in ("no program at all", "#!/missing/interpreter\n"):
        (tmp_path / "sudo").write_text(broken)
        (tmp_path / "sudo").chmod(0o755)
        assert user.ask().command == ()
    user.has("busctl", "exit 0")
    assert user.ask().command == ()


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("(root : wheel) NOPASSWD: ALL", True), ("(alice : root) NOPASSWD: ALL", False), ("(root) NOPASSWD: systemctl poweroff", False), ("(root) NOPASSWD: /usr/bin/systemctl poweroff now", False),
        ("(root) NOPASSWD: ALL, !/usr/bin/systemctl poweroff", False), ("(root) NOPASSWD: ALL, !/bin/true", True), ("(root) NOPASSWD: !/bin/true, /usr/bin/systemctl", True),
        ("(root) NOPASSWD: poweroff", False), ("(root) NOPASSWD: /usr/bin/systemctl, PASSWD: /bin/true", True),
    ],
)  # fmt: skip
def test_a_rule_names_its_program_and_its_words(rule: str, allowed: bool) -> None:
    """What is taken back is taken back for that alone."""
    assert nopasswd(f"    {rule}\n", COMMAND) is allowed
