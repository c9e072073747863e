"""How often users may ask, and that nobody uses up another's allowance."""

import pytest

from costguard.host.limits import SUBORDINATE, USERS_KEPT, TokenBucket


def test_each_user_has_an_allowance_that_fills_up_again() -> None:
    """Two at once, then one every ten seconds; a refused request is not counted."""
    limit = TokenBucket(2, 10.0)
    assert [limit.take(1000, 0.0) for _ in range(4)] == [0.0, 0.0, 10.0, 10.0]
    assert limit.take(1001, 0.0) == 0.0
    assert [limit.take(1000, 10.0), limit.take(1000, 10.0)] == [0.0, 10.0]


@pytest.mark.parametrize("together", [False, True])
def test_the_thousands_of_numbers_that_one_person_has_use_up_nobodys_allowance(together: bool) -> None:
    """Anybody with an entry in /etc/subuid may ask as 65,536 users; people, who have one number each, are served all the same."""
    limit = TokenBucket(2, 10.0, together=together)
    waits = [limit.take(SUBORDINATE + number, 0.0) for number in range(USERS_KEPT * 4)]
    assert waits[-1] > 0.0
    assert limit.take(1000, 0.0) == 0.0


def test_what_all_may_ask_together_is_bounded() -> None:
    """Whoever they are."""
    limit = TokenBucket(3, 10.0, together=True)
    assert [limit.take(uid, 0.0) for uid in (1000, 1001, 1002, 1003)] == [0.0, 0.0, 0.0, 10.0]


def test_more_users_than_are_told_apart_share_one_allowance() -> None:
    """Who has been silent for long enough is forgotten first."""
    limit = TokenBucket(2, 10.0)
    for uid in range(USERS_KEPT):
        limit.take(1000 + uid, 0.0)
    assert [limit.take(9000 + uid, 0.0) for uid in range(3)] == [0.0, 0.0, 10.0]
    assert limit.take(9999, 11.0) == 0.0
