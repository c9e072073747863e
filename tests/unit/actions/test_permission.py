"""What sudo's listing allows."""

import pytest

from costguard.actions.permission import nopasswd

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
