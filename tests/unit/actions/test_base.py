"""What an effective configuration says of an action, as its worker hears it."""

from costguard.actions.base import Context
from costguard.cloud.access import HostPaths

CONFIG = {
    "policy": {"mode": "live", "fallback": ["shutdown"], "grace": 60.0},
    "actions": {"stop": {"timeout": 90}, "shutdown": {"delay": 60}},
    "cloud": {"provider": "x"},
    "sink": {"url": "u"},
    "heartbeat": {"every": 60},
    "hooks": {"pre_stop": ["save"]},
    "host": {"procfs": "/p", "sysfs": "/s", "devfs": "/d", "stands_for_host": True, "other": 1},
    "providers": ["x=y"],
    "paths": {"runtime": "/run/x", "state": "/var/x"},
}


def test_every_section_that_an_action_needs() -> None:
    """And nothing of another action."""
    assert Context.of(CONFIG, "stop") == Context(
        "stop", "live", settings={"timeout": 90}, cloud={"provider": "x"}, sink={"url": "u"}, heartbeat={"every": 60},
        hook={"pre_stop": ["save"]}, host=HostPaths("/p", "/s", "/d", stands_for_host=True), providers=("x=y",),
        results="/run/x/results",
    )  # fmt: skip
    assert Context.of(CONFIG, "shutdown").settings == {"delay": 60}
    assert [Context.of(CONFIG, action).fallback for action in ("stop", "shutdown")] == [False, True]


def test_what_is_not_configured_is_empty() -> None:
    """Of a person's own command without an agent there is no place for results."""
    assert Context.of({"policy": {"mode": "dry-run"}}, "reboot") == Context("reboot", "dry-run")
    assert [Context("stop", mode).live for mode in ("live", "Live", "dry-run", "")] == [True, False, False, False]
