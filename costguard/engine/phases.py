"""The phases and every way from one to another, as data: checked in every step, printed in the documentation."""

from typing import NamedTuple

from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, WATCHING


class Transition(NamedTuple):
    """One way between two phases."""

    before: str
    after: str
    when: str


TRANSITIONS = (
    Transition(WATCHING, WARNING, "a reason holds and nothing stands in its way: people are told, the countdown runs"),
    Transition(WATCHING, DONE, "a reason holds, but the last plan was refused, or it would be the third stop in a day"),
    Transition(
        WARNING,
        WATCHING,
        "the reason ended, a hold or a notice came, the policy changed, or there was a hole (all of it is told)",
    ),
    Transition(WARNING, ACTING, "due: the reason holds on this tick's readings, and the waiting worker is released"),
    Transition(WARNING, DONE, "dry run, end_process, or the plan was refused"),
    Transition(WARNING, FAILED, "no link of the fall-back list could even be prepared"),
    Transition(ACTING, CONFIRMING, "the request was accepted, or what became of it is unknown"),
    Transition(ACTING, DONE, "carried out, or refused"),
    Transition(ACTING, WARNING, "a technical failure: the next link is decided anew"),
    Transition(ACTING, FAILED, "a technical failure of the last link"),
    Transition(ACTING, WATCHING, "the machine slept or was started again: the incident is closed"),
    Transition(CONFIRMING, DONE, "confirmed; or nobody can tell, and it is never repeated"),
    Transition(CONFIRMING, WARNING, "nothing happened: the next link is decided anew"),
    Transition(CONFIRMING, FAILED, "nothing happened after the last link"),
    Transition(CONFIRMING, WATCHING, "the machine slept or was started again: the incident is closed"),
    Transition(DONE, WATCHING, "work was seen, root released it, or a refused plan passes now"),
    Transition(DONE, WARNING, "a person says stop; or as DONE to WATCHING, when a reason holds in the same tick"),
    Transition(
        FAILED,
        WATCHING,
        "work was seen, root released it, it is time to try anew, or a person's stop was given up",
    ),
    Transition(FAILED, WARNING, "a person says stop; or as FAILED to WATCHING, when a reason holds in the same tick"),
    Transition(FAILED, DONE, "as FAILED to WATCHING, when the plan is refused in the same tick"),
)
"""Every phase may also stay as it is; WARNING to WARNING is a new countdown."""

ALLOWED = frozenset((t.before, t.after) for t in TRANSITIONS)
