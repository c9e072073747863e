"""The engine as it judges a tree: one policy, and what its verdict says to people."""

from costguard.agent.granted import Granted
from costguard.engine import Device, Known, Observation, Outcome, Policy, State, Step, Tick, initial, step
from costguard.engine.effects import Effect, Leave, Tell
from costguard.engine.idleness import concerned
from costguard.engine.rules import rules_of
from costguard.engine.state import OPEN
from costguard.engine.words import percent, spell
from costguard.tree.jobs import Judgement

UNKNOWN_ALARM_SECONDS = 60.0
"""After this a GPU that cannot be read is reported: unknown is never idle, so it holds up the verdict."""


def policy_of(judgement: Judgement, granted: Granted, launched: float, first: float) -> Policy:
    """The engine's policy for a command launched at that moment, whose first reading is that of the moment ``first``."""
    floor = launched + judgement.judged_from
    return Policy(
        mode="live",
        scope="tree",
        interval=judgement.interval,
        arm_duration=None,
        kill_threshold=judgement.threshold,
        kill_duration=judgement.readings * judgement.interval,
        window_rule="unbroken",
        aggregate=judgement.aggregate,
        gpu_devices=granted.keys,
        delay=max(0.0, floor - first + judgement.interval),
        grace=0.0,
        boot_grace=0.0,
        unused_after=None,
        unknown_alarm=max(UNKNOWN_ALARM_SECONDS, 2.0 * judgement.interval),
        kill_action="end_process",
    )


class Decision:
    """The engine's state for one tree, and its last word."""

    def __init__(self) -> None:
        self.state: State = initial("exec", "exec")
        self._policy: Policy | None = None

    def begin(self, policy: Policy) -> None:
        """Judge by this policy from now on."""
        self._policy = policy

    @property
    def begun(self) -> bool:
        """Whether there is a policy to judge by."""
        return self._policy is not None

    @property
    def urgent(self) -> bool:
        """Whether the verdict waits for one more reading, which must show the same."""
        return self.state.core.phase in OPEN

    def take(self, event: Tick) -> tuple[bool, list[Tell]]:
        """Whether the tree is to end now, and what the engine tells beside that."""
        assert self._policy is not None  # `begin` comes first
        last = step(self.state, event, self._policy)
        waiting: list[Effect] = list(last.effects)
        told: list[Tell] = []
        idle = False
        while waiting:
            effect = waiting.pop(0)
            idle = idle or isinstance(effect, Leave)
            if isinstance(effect, Tell):
                told.append(effect)
                last = self._delivered(effect, event.at, last)
                waiting += last.effects
        self.state = last.state
        return idle, told

    def _delivered(self, effect: Tell, at: float, last: Step) -> Step:
        """Nobody else is to be warned: the signal comes first, and the grace after it."""
        assert self._policy is not None  # as in `take`
        return step(last.state, Outcome(at, effect.id, "delivered"), self._policy)

    def because(self, judgement: Judgement, seen: Observation, devices: dict[str, Device]) -> str:
        """Why the tree is ended: which GPUs, below what, for how long, and what they showed last."""
        assert self._policy is not None  # as in `take`
        keys = [self.state.gpus[i] for i in concerned(self.state, rules_of(self._policy))]
        loads = dict(zip(seen.gpus, seen.readings, strict=True))
        shown = [f"{called(key, devices)} {percent(r.load)}" for key in keys if isinstance(r := loads.get(key), Known)]
        every = f"{judgement.readings} readings, one every {spell(judgement.interval)}"
        window = spell(judgement.readings * judgement.interval)
        return f"idle: below {percent(judgement.threshold)} for {window} ({every}); last reading: {', '.join(shown)}"


def called(key: str, devices: dict[str, Device]) -> str:
    """A GPU by its UUID, or by its key where it has none."""
    device = devices.get(key)
    return device.uuid if device is not None and device.uuid else key
