"""Asking the agent."""

import socket
from pathlib import Path

import pytest

from costguard.cli import reach
from costguard.errors import REFUSED, CostguardError
from costguard.host import lock
from costguard.host.address import address
from costguard.host.client import AgentUnreachableError
from costguard.host.control import SOCKET


def test_a_change_without_an_answer_is_not_called_undone(tmp_path: Path) -> None:
    """A stopped agent takes the request when it goes on: nobody may read the silence as a refusal."""
    lock.acquire(str(tmp_path), str(tmp_path), private=False, runtime=str(tmp_path))
    with socket.socket(socket.AF_UNIX) as silent:
        with address(str(tmp_path / SOCKET)) as name:
            silent.bind(name)
        silent.listen(1)
        with pytest.raises(CostguardError) as caught:
            reach.change(str(tmp_path), {"command": "hold"}, 0.2)
    assert not isinstance(caught.value, AgentUnreachableError)
    assert "the hold may still take effect" in caught.value.message
    assert "costguard status" in caught.value.hint
    assert caught.value.exit_code == REFUSED


def test_without_an_agent_nothing_takes_effect(tmp_path: Path) -> None:
    """Where none runs the words are plain."""
    with pytest.raises(CostguardError) as caught:
        reach.change(str(tmp_path), {"command": "hold"}, 0.2)
    assert "no costguard agent is running" in caught.value.message
    assert "may take effect" not in caught.value.message
