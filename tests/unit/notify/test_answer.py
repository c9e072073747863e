"""What costguard takes from the answer of a service."""

import pytest

from costguard.notify import answer


@pytest.mark.parametrize(
    "said",
    [
        '{"ok": false, "error_code": 403, "description": "Forbidden: bot was kicked"}',  # Telegram
        '{"errcode": 93000, "errmsg": "invalid webhook url"}',  # WeCom
        '{"errcode": 310000, "errmsg": "keywords not in content"}',  # DingTalk
        '{"errcode": "M_FORBIDDEN"}',  # Matrix
        '{"success": false, "error": "Invalid integration"}',  # Rocket.Chat
        '{"result": "error", "msg": "Invalid API key"}',  # Zulip
        '{"code": 400, "message": "failed to get device token"}',  # Bark
        '{"code": 40301, "http": 403, "error": "forbidden"}',  # ntfy
        '{"status": "invalid event", "errors": ["Length of routing_key is incorrect"]}',  # PagerDuty
        '{"status": "Failed"}',
        '{"error": {"code": "TriggerInputSchemaMismatch"}}',  # a workflow of Teams
        '{"error": true}',
    ],
)
def test_a_service_that_says_no_has_not_taken_it(said: str) -> None:
    """Whatever its status is: who believes 200 thinks that people were warned."""
    assert answer.read(said.encode()).declines


@pytest.mark.parametrize(
    "said",
    [
        "", "ok", "1", "[]", "null", "<html>fine</html>", '{"ok": true, "error": "deprecated"}', '{"errcode": 0, "errmsg": "ok"}',
        '{"id": "a", "event": "message"}', '{"code": 200, "message": "success"}', '{"code": 0, "msg": "success"}',
        '{"status": "success", "message": "Event processed", "errors": []}', '{"status": 1, "request": "647d"}', '{"error": null}',
        '{"error": ""}', '{"error": "none"}', '{"error": false, "errors": {}}', '{"result": "success"}', '{"code": "20000"}',
        '{"content": "error", "embeds": []}',
    ],
)  # fmt: skip
def test_any_other_answer_says_nothing(said: str) -> None:
    """A message that was taken is not sent again for a word that stands in the answer."""
    assert not answer.read(said.encode()).declines
