"""What the modules render is what the agent takes."""

import email
import itertools
import json
import subprocess
import tomllib
from pathlib import Path

from click.testing import CliRunner

from costguard.cli.main import main
from costguard.config.options import OPTIONS
from terraform.checks.conftest import Terraform

TOGETHER_WITH_OTHERS = {"preset", "unknown_stop_after", "hold.per_user", "admin.hold", "cloud.provider"}
"""Options whose examples contradict others, or need a rarer cloud."""


def text(value: object) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def settings() -> dict[str, str]:
    """Every option at its example, in a live configuration that holds."""
    examples = {
        path.replace("NAME", "team"): text(option.example)
        for path, option in OPTIONS.items()
        if path not in TOGETHER_WITH_OTHERS and not path.startswith(("hooks.", "admin."))
    }
    own = {
        "mode": "live", "interval": "5s", "kill_duration": "45m", "hold.max": "8h", "hold.total": "24h",
        "kill_action": "stop", "fallback": "shutdown", "sink.url": "https://records.example.org/costguard/",
        "notify.channels.team.kinds": "", "notify.channels.team.level": "warning", "cloud.metadata": "auto", "cloud.tags": "on",
        "sink.token_file": "", "heartbeat.token_file": "", "actions.command.run": "", "notify.channels.team.urls": "secret:team",
        "host.procfs": "/proc", "host.sysfs": "/sys", "host.devfs": "/dev", "cloud.metadata_endpoint": "", "cloud.api_endpoint": "",
    }  # fmt: skip
    return examples | own


def test_every_option_is_rendered_as_the_agent_reads_it(machine: Terraform) -> None:
    """All at once: the file is TOML, each value is there, and `config check` takes it."""
    wanted = settings()
    outputs = machine.apply(extra="aws", settings=wanted)
    tree = tomllib.loads(outputs["config"])
    for path, value in wanted.items():
        found = tree
        for word in path.split("."):
            found = found[word]
        assert text(found) == value, path
    file = machine.folder / "config.toml"
    file.write_text(outputs["config"], encoding="utf-8")
    done = CliRunner().invoke(main, ["config", "check", "--config", str(file)])
    assert done.exit_code == 0, done.output


def test_all_mistakes_are_told_at_once(machine: Terraform) -> None:
    """Each with its option, and with what to set instead; a secret is not repeated."""
    wrong = {
        "kil_duration": "1h", "grace": "ten minutes", "mode": "dry", "cloud.group": "quit", "kill_threshold": "7",
        "notify.attempts": "many", "notify.channels.team.urls": "slack://TOKEN_A/TOKEN_B", "price_per_hour": "much",
        "deadline.lease": "2027-01-31", "currency": "euro", "interval": "20s", "heartbeat.tag": "yes",
    }  # fmt: skip
    done = machine.ask("plan", f"-var=settings={json.dumps(wrong)}", "-var=extra=gcp")
    said = " ".join(done.stderr.split())
    assert done.returncode == 1
    for path in wrong:
        assert path in said, path
    for words in ("dry-run or live", "notify or leave", "(RFC 3339)", "three capital letters", "true or false"):
        assert words in said
    assert "TOKEN_A" not in said


def test_a_multi_part_text_is_one(machine: Terraform) -> None:
    """As Python's own reader of mail takes it apart, which is the one of cloud-init."""
    others = ["#cloud-config\npackages: [htop]\n", "#!/bin/sh\necho mine\n"]
    outputs = machine.apply(extra="aws", other_user_data=others)
    message = email.message_from_string(outputs["user_data"])
    parts = [(part.get_content_type(), part.get_payload()) for part in message.walk() if not part.is_multipart()]
    assert [kind for kind, _ in parts] == ["text/cloud-config", "text/x-shellscript", "text/x-shellscript"]
    assert [str(body).strip() for _, body in parts[:2]] == [other.strip() for other in others]
    assert str(parts[2][1]).strip() == outputs["script"].strip()


def test_the_policy_is_that_of_the_actions(machine: Terraform) -> None:
    """The action and its fall-back list, of which only those count that go through the cloud, and the tags."""
    chains = [
        ("stop", ""),
        ("terminate", "stop"),
        ("hibernate", "stop,shutdown"),
        ("shutdown", ""),
        ("command", "terminate"),
    ]
    known = set(json.loads((machine.folder.parent / "aws/permissions.json").read_text(encoding="utf-8"))["policies"])
    for (action, fallback), tag in itertools.product(chains, ("", "heartbeat.tag", "sink.tag")):
        wanted = {"kill_action": action, "fallback": fallback, "actions.command.run": "/bin/true"}
        key = machine.apply(extra="aws", settings=wanted | ({tag: "true"} if tag else {}))["policy_key"]
        cloud = {action, *fallback.split(",")} & {"stop", "terminate", "hibernate"}
        assert key == "+".join((*(sorted(cloud) or ["none"]), *(["tag"] if tag else [])))
        assert key in known


def test_what_comes_after_the_script_runs_whatever_becomes_of_costguard(machine: Terraform, tmp_path: Path) -> None:
    """As a startup script of Google Cloud, which is one text: the failure is told, and the owner's own lines run."""
    script = machine.apply(extra="gcp")["script"]
    text = f"{script}\nfalse\necho mine\n"
    environment = {"PATH": "/usr/bin:/bin", "PROVISION_ROOT": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", text], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "mine\n"
    assert "NOT PROVISIONED: costguard is not on this image" in done.stderr
    alone = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, timeout=60, check=False)
    assert alone.returncode == 3, "cloud-init sees the failure of a part by its exit code"


def test_it_may_be_piped_into_a_shell_on_a_machine_that_runs_already(machine: Terraform, tmp_path: Path) -> None:
    """As docs/terraform.md says; the shell ends as the script does."""
    script = machine.apply(extra="aws")["script"]
    environment = {"PATH": "/usr/bin:/bin", "PROVISION_ROOT": str(tmp_path)}
    done = subprocess.run(
        ["bash"], input=script, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "NOT PROVISIONED: costguard is not on this image" in done.stderr
    assert done.returncode == 3
