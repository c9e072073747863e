"""Print docs/engine.md from the tables that the engine works with: ``python -m costguard.engine.docs_page``."""

from costguard.engine.phases import TRANSITIONS
from costguard.engine.reasons import REASONS

HEAD = """# How costguard decides

This page is printed from the code (`make docs`); a test compares them.

One pure function decides: `step(state, event, policy)` gives the new state, the effects it asks for, and one sentence
for people. The agent, the simulation and your own programs (`costguard.engine`) run the same one.

- A reading is *a value with evidence* or *unknown with a reason*. Unknown is never idle, and never a number.
- *Load* is the highest utilisation of a GPU's engines since the tick before. *Signs of work* are anything else above
  the noise: power above the idle baseline, bytes moved, processes at work.
- A machine action (stop, terminate, hibernate, shutdown, reboot) needs **every** GPU of the machine quiet (load below
  the threshold, and no sign) over the whole window, whatever `aggregate` and `gpu_devices` say. `end_process`, `end_task` and
  `command` go by the load of the selected GPUs alone.
- Every time is measured on a clock that counts suspended time; setting the wall clock changes nothing.
- A deadline is not idleness: it acts, after its warning, although a GPU cannot be read, once that GPU has not been seen
  working for a whole window (`kill_duration`). Whoever works unseen holds the machine.
"""

OBSTACLES = """
## Reasons to stop, and what stands in their way

| reason | work seen | unknown | reader's veto | user's hold | administrator's hold |
|---|---|---|---|---|---|
"""

PHASES = """
## Phases

What people read is derived from facts: `STARTING` (nothing read yet, or within `boot_grace`), `IDLE` (waits for work),
`ARMED` (work was seen), `HELD`, and the phases `WARNING`, `ACTING`, `CONFIRMING`, `DONE`, `FAILED`.
`DONE` says which: acted, *would have acted* (dry run), *cannot* (refused), or unknown.

| from | to | when |
|---|---|---|
"""


def document() -> str:
    """The whole page."""
    reasons = "".join(f"| {' | '.join(reason.cells)} |\n" for reason in REASONS)
    phases = "".join(f"| {before} | {after} | {when} |\n" for before, after, when in TRANSITIONS)
    return HEAD + OBSTACLES + reasons + PHASES + phases


if __name__ == "__main__":
    print(document(), end="")
