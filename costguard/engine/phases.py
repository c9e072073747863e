"""The phases and every way from one to another, as data: checked in every step, printed in the documentation."""

from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, WATCHING

TRANSITIONS = (
    (WATCHING, WARNING, "a reason holds and nothing stands in its way: people are told, the countdown runs"),
    (WATCHING, DONE, "a reason holds, but the last plan was refused, or it would be the third stop in a day"),
    (
        WARNING,
        WATCHING,
        "the reason ended, a hold or a notice came, the policy changed, or the guard was paused (people are told each time)",
    ),
    (WARNING, ACTING, "due: the reason holds on this tick's readings, and the waiting worker is released"),
    (WARNING, DONE, "dry run, end_process, or the plan was refused"),
    (
        WARNING,
        FAILED,
        "no action of the fall-back list could even be prepared, or one was refused after another had failed",
    ),
    (ACTING, CONFIRMING, "the request was accepted, or its outcome is unknown"),
    (ACTING, DONE, "carried out, or refused"),
    (ACTING, WARNING, "a technical failure: the next action is decided anew"),
    (ACTING, FAILED, "a technical failure of the last action, or it was refused after another had failed"),
    (ACTING, WATCHING, "the machine slept or restarted: the incident is closed"),
    (CONFIRMING, DONE, "confirmed; or the outcome stays unknown, and it is never retried"),
    (CONFIRMING, WARNING, "nothing happened: the next action is decided anew"),
    (CONFIRMING, FAILED, "nothing happened after the last action"),
    (CONFIRMING, WATCHING, "the machine slept or restarted: the incident is closed"),
    (DONE, WATCHING, "work was seen, root released it, or a refused plan passes now"),
    (
        DONE,
        WARNING,
        "a person runs `costguard stop`; as DONE to WATCHING, when a reason holds in the same tick; or the machine runs on after its end was confirmed, and the next action is decided anew",
    ),
    (DONE, FAILED, "the machine runs on after its end was confirmed, and no action of the list is left"),
    (
        FAILED,
        WATCHING,
        "work was seen, root released it, it is time to try anew, or a person's stop was given up",
    ),
    (FAILED, WARNING, "a person runs `costguard stop`; or as FAILED to WATCHING, when a reason holds in the same tick"),
    (FAILED, DONE, "as FAILED to WATCHING, when the plan is refused in the same tick"),
)
"""From, to, when. Every phase may also stay as it is; WARNING to WARNING is a new countdown."""

ALLOWED = frozenset((before, after) for before, after, _when in TRANSITIONS)
