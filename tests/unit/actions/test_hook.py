"""The pre-stop hook: run once for an occasion, and whatever becomes of it is words, never an exception."""

import threading
from pathlib import Path

import pytest

from costguard.actions import effect, hook
from costguard.actions.base import Context
from costguard.engine.pre_stop_hook import HOOK_DONE, HOOK_FAILED
from costguard.plans import Plan, Result

PLAN = Plan("stop", "go")


def context(folder: Path, *argv: str, mode: str = "live") -> Context:
    return Context("stop", mode, incident="b-i1", attempt="b-a1", hook={"pre_stop": list(argv)}, results=str(folder))


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (
            ["/nonexistent/save"],
            "failed",
            "the pre-stop hook could not be started: /nonexistent/save: No such file or directory, run as ",
        ),
        (["/bin/sh", "-c", "echo disk full; exit 3"], "failed", "failed with exit code 3; it said: disk full"),
        (["/bin/sh", "-c", "sleep 60"], "failed", "was killed after 0.2 s"),
        (["/bin/true"], "done", "the pre-stop hook succeeded"),
    ],
)
def test_each_end_has_its_words(tmp_path: Path, argv: list[str], status: str, words: str) -> None:
    """And a second time for the same occasion it is not run; how it ended stays true."""
    found = hook.run(context(tmp_path, *argv), "b-i1", 0.2)
    assert (found.status, words in found.detail) == (status, True), found
    again = hook.run(context(tmp_path, *argv), "b-i1", 0.2)
    assert (again.status, again.detail) == (status, f"the pre-stop hook ran before: {found.detail}")


@pytest.mark.parametrize(
    ("argv", "verdict"), [(["/nonexistent/save"], "consequences"), (["/bin/true"], "go"), ([], "go")]
)
def test_an_action_goes_on_without_a_hook_that_failed(tmp_path: Path, argv: list[str], verdict: str) -> None:
    """A stop that a broken program prevents would be a bill; people are told what was not saved."""
    decided = hook.before_action(PLAN, context(tmp_path, *argv))
    ended = {"consequences": [HOOK_FAILED], "go": [HOOK_DONE] if argv else []}
    assert (decided.verdict, [finding.code for finding in decided.findings]) == (verdict, ended[verdict])
    dry = hook.before_action(PLAN, context(tmp_path / "dry", *argv, mode="dry-run"))
    assert dry == PLAN
    refused = PLAN._replace(verdict="refuse")
    assert hook.before_action(refused, context(tmp_path / "refused", *argv)) == refused


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(30, 30.0), (2.5, 2.5), (None, hook.DEFAULT_SECONDS), ("x", hook.DEFAULT_SECONDS)]
)
def test_its_time_is_what_is_configured(timeout: object, seconds: float) -> None:
    """Or the default, where that is no number."""
    assert effect.timeout({"timeout": timeout}, hook.DEFAULT_SECONDS) == seconds


def test_a_run_that_goes_on_is_waited_for(tmp_path: Path) -> None:
    """Another process of the agent was told of the same occasion: it acts when what is to be saved is saved, and runs nothing twice."""
    found: list[Result] = []
    other = threading.Thread(target=lambda: found.append(hook.run(context(tmp_path, "/bin/false"), "b-i1", 30.0)))
    first = hook.run(context(tmp_path, "/bin/sleep", "0.5"), "b-i1", 30.0, other.start)
    other.join()
    assert first.status == "done"
    assert found == [first._replace(detail=f"the pre-stop hook ran before: {first.detail}")]
