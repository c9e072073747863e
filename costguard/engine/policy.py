"""What the owner wants, in the units the engine works with."""

from typing import NamedTuple

MACHINE_ACTIONS = frozenset({"stop", "terminate", "hibernate", "shutdown", "reboot"})
"""Actions that end or restart the whole machine; only these need every GPU quiet."""

CLOUD_ACTIONS = frozenset({"stop", "terminate", "hibernate"})
"""Requests to a cloud."""

END_TASK = "end_task"
"""The request to a cluster's scheduler to end the one task that is guarded; it ends no machine."""

REPEATABLE = CLOUD_ACTIONS | {END_TASK}
"""Where certainly nothing was accepted, the same request may be sent again. Anything else runs at most once."""

MACHINE_THRESHOLD_LIMIT = 0.20
"""No machine action above this load unless the owner sets ``stop_below_load``."""


class Policy(NamedTuple):
    """One complete set of rules. Durations are seconds, thresholds and shares 0 to 1.

    The validated configuration produces it (`costguard.config`); `costguard.engine.invariants` is the
    last line of defence against one built by hand.
    """

    mode: str = "dry-run"  # dry-run | live
    scope: str = "machine"  # machine | task | tree
    interval: float = 10.0
    arm_threshold: float = 0.05
    arm_duration: float | None = 60.0  # None: counts as armed from the start
    kill_threshold: float = 0.05
    kill_duration: float = 3600.0
    window_rule: str = "share"  # share | unbroken
    window_share: float = 0.01
    aggregate: str = "all"  # all | any | mean
    gpu_devices: tuple[str, ...] = ()  # indices, UUIDs or PCI addresses; empty: all
    stop_below_load: bool = False
    delay: float = 0.0  # load actions: this long after the guard began, nothing is judged
    grace: float = 600.0
    warn_attempts: int = 3  # of delivering a warning, before its delivery rule counts as exhausted
    unreached_wait: float = 0.0  # at least so much longer runs a countdown whose warning reached nobody; 0: no longer
    boot_grace: float = 1200.0
    unused_after: float | None = 14400.0  # None: off
    unknown_alarm: float = 900.0
    unknown_stop_after: float | None = None  # None: off; otherwise at least 4 h
    lifetime: float | None = None  # deadline: running seconds, added up over reboots
    lease_until: float | None = None  # deadline: wall clock, seconds since the epoch
    budget: float | None = None  # deadline: money per budget_period
    budget_period: float = 30 * 86400.0
    stop_busy: bool = False  # a deadline acts although work is seen
    kill_action: str = "stop"
    fallback: tuple[str, ...] = ()
    hold_max: float = 86400.0
    hold_total: float = 259200.0  # of all users but root, since work was last seen
    hold_per_user: float | None = None  # of one of them; None: two thirds of the whole
    extend_max: float = 86400.0  # so long past a deadline may users extend it
    tell_armed: bool = False  # people hear when the machine counts as working
    price_per_hour: float | None = None
    currency: str = "USD"
    saving_limit: float | None = 86400.0  # of a time off, so much counts as money not spent; None: all of it
    kept_told_after: float | None = (
        172800.0  # what keeps a machine up for so long without work of a GPU is told; None: off
    )
    kept_at_most: float | None = None  # so long may a sense keep it up without work of a GPU; None: for ever
    admin_hold: str = ""  # reason; not empty: the administrator blocks every own action

    @property
    def actions(self) -> tuple[str, ...]:
        """The action and its fall-back list, in the order in which they are tried."""
        return (self.kill_action, *self.fallback)

    @property
    def ends_task(self) -> bool:
        """Whether any link of the list ends a task, whose own GPUs are judged, and no others."""
        return END_TASK in self.actions

    @property
    def ends_machine(self) -> bool:
        """Whether any link of the list is a machine action, so that every GPU must be quiet."""
        return any(action in MACHINE_ACTIONS for action in self.actions)

    @property
    def judges(self) -> str:
        """How the GPUs are judged together: as ``aggregate`` says, but a machine action needs every GPU (``all``)."""
        return "all" if self.ends_machine else self.aggregate

    @property
    def quiet_threshold(self) -> float:
        """Load below which a GPU may count as quiet for the configured action."""
        if self.ends_machine and not self.stop_below_load:
            return min(self.kill_threshold, MACHINE_THRESHOLD_LIMIT)
        return self.kill_threshold

    @property
    def heeds_signs(self) -> bool:
        """Whether signs of work other than load keep a GPU from being quiet."""
        return self.ends_machine and not self.stop_below_load

    @property
    def hold_share(self) -> float:
        """Seconds for which one user may hold the machine since work was last seen: never all that there are for all."""
        return self.hold_total * 2.0 / 3.0 if self.hold_per_user is None else min(self.hold_per_user, self.hold_total)

    @property
    def tolerance(self) -> float:
        """Seconds of a window that may be above the threshold."""
        return self.window_share * self.kill_duration if self.window_rule == "share" else 0.0
