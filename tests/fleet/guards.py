"""Many guards in small: the real engine, the guard's real `Workers`, and the real plug-in in their jobs."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from costguard.actions.cloud import explain
from costguard.agent.circumstances import Circumstances
from costguard.agent.jitter import Jitter
from costguard.agent.workers import Workers
from costguard.cloud.api import CloudError, Identity, Site, Ticket
from costguard.engine import Device, Devices, Known, Observation, Outcome, Policy, Tick, initial, step
from costguard.engine.effects import Abandon, Check, Confirm, Effect, Go, Prepare, Tell
from costguard.engine.state import DONE
from costguard.host.ports import Line
from costguard.plans import Plan
from costguard.plans import Result as Fate
from costguard_aws import act
from costguard_aws.facts import gather
from costguard_aws.rules import plan
from costguard_aws.session import Session
from tests.fleet.ec2 import Account, FleetSession
from tests.fleet.hours import Hours, Signal

GPU = "0000:01:00.0"
OBSERVED = Observation((GPU,), (Known(0.0, (), 10.0, "quiet"),))
EPOCH = 1.8e9
INTERVAL = 10.0


class Job:
    """A worker without a process: its job in a strand, its lines in a list."""

    def __init__(self, guard: "Guard", program: str, job: Mapping[str, Any]) -> None:
        self.guard, self.job = guard, job
        self.lines: list[dict[str, object]] = []
        self.released = Signal(guard.hours)
        self.killed = self.ready = False
        if program == "notify":
            self.lines.append({"reached": {"wall": ""}, "failed": {}})
            return
        guard.hours.start(self._run)

    def say(self, **line: object) -> None:
        """One line for the guard."""
        self.lines.append(line)

    def _run(self) -> None:
        session = FleetSession(self.guard.account, self.guard.session)
        ticket = Ticket(str(self.job.get("incident", "")), str(self.job["attempt"]), float(self.job["deadline"]))
        if self.job["job"] == "confirm":
            self._confirm(session, ticket)
            return
        try:
            facts = gather(session, self.guard.site, self.guard.identity, "stop")
        except CloudError as error:
            verdict, finding = explain(error)
            self._plan(Plan("stop", verdict, (finding,)))
            return
        made = plan("stop", facts, {})
        self._plan(made)
        if self.job["job"] == "plan" or not made.may_act:
            return
        self.ready = True
        self.say(ready=True)
        self.released.wait()
        if not self.killed:
            fate = act.execute(session, "stop", facts, {}, ticket)
            self.guard.fates[fate.status] += 1
            self.guard.recorded = fate
            self.say(outcome=fate.as_json)

    def _plan(self, made: Plan) -> None:
        self.guard.verdicts[f"{self.job['job']} {made.verdict}"] += 1
        findings = [finding._asdict() for finding in made.findings]
        if made.verdict in {"refuse", "another"}:
            self.guard.refusals[made.findings[0].text] += 1
        self.say(plan={"action": made.action, "verdict": made.verdict, "findings": findings})

    def _confirm(self, session: FleetSession, ticket: Ticket) -> None:
        try:
            me = self.guard.identity.instance
            fate = act.confirm(session, me, "stop", self.guard.recorded, ticket.deadline)
        except CloudError as error:
            fate = Fate("unknown", str(error))
        self.say(outcome=fate.as_json)


class Guard:
    """One machine with its guard. ``told`` counts the kinds of its messages, ``verdicts`` those of its plans."""

    def __init__(
        self,
        number: int,
        hours: Hours,
        account: Account,
        session: Session,
        folder: str,
        booted: float,
        policy: Policy,
        cloud: Mapping[str, float],
    ) -> None:
        self.hours, self.account, self.session, self.policy, self._booted = hours, account, session, policy, booted
        me = f"i-{number * 2654435761 % 2**64:016x}0"
        self.identity = Identity("AWS", me, "us-east-1", "us-east-1a", "g5g.xlarge", "on-demand", {}, ("firmware",))
        self.site = Site({}, {"metadata_endpoint": "http://127.0.0.1:9"}, {}, f"{folder}/proc", f"{folder}/sys")
        self.told: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.fates: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.recorded: Fate | None = None
        self.state = initial("boot", f"aws:{me}")
        self._jobs: dict[int, Job] = {}
        self._count = 0
        config = {
            "policy": {"mode": "live", "fallback": []},
            "paths": {"runtime": folder},
            "cloud": cloud,
            "providers": ["aws=costguard_aws"],
        }
        moments = Jitter(f"aws:{me}", attended=False)
        self._workers = Workers(self, config, moments)  # type: ignore[arg-type]  # of a host it needs three verbs
        self._events: list[Any] = [Devices(self.now, (Device(GPU, 0, "GPU-a", "H200"),))]

    @property
    def now(self) -> float:
        """The machine's boot clock."""
        return self._booted + self.hours.now

    @property
    def _circumstances(self) -> Circumstances:
        return Circumstances(instance=self.identity.instance)

    @property
    def over(self) -> bool:
        """Whether its incident has ended."""
        return self.state.core.phase == DONE

    def spawn(self, program: str, job: bytes) -> int:
        """As the host of the guard."""
        self._count += 1
        self._jobs[self._count] = Job(self, program, json.loads(job))
        return self._count

    def send(self, child: int, line: bytes) -> bool:
        """As the host of the guard: release a worker."""
        del line
        self._jobs[child].released.set()
        return True

    def kill(self, child: int) -> None:
        """As the host of the guard."""
        job = self._jobs.pop(child, None)
        if job is not None:
            job.killed = True
            job.released.set()

    def tick(self) -> None:
        """One look, and everything that follows from it."""
        self._events.append(Tick(self.now, OBSERVED, EPOCH + self.hours.now, 0.0, True))
        self.hear()

    def hear(self) -> None:
        """Take what the workers have said."""
        for child, job in list(self._jobs.items()):
            while job.lines:
                line = Line(child, json.dumps(job.lines.pop(0)).encode())
                self._take(self._workers.take(line, self.now))
        for outcome in self._workers.late(self.now):
            self._take(outcome)
        while (waited := self._workers.take_due(self.now)) is not None:
            self._take(self._workers.start(waited, self.now, self._circumstances))
        while self._events:
            self.state, effects, _ = step(self.state, self._events.pop(0), self.policy)
            for effect in effects:
                self._begin(effect)

    def _take(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._events.append(outcome)

    def _begin(self, effect: Effect) -> None:
        if isinstance(effect, Tell):
            self.told[effect.kind] += 1
        match effect:
            case Check() | Prepare():
                self._take(self._workers.submit(effect, self.now, self._circumstances))
            case Tell():
                self._take(self._workers.tell(effect, self.now, {}))
            case Confirm():
                self._take(self._workers.start(effect, self.now, self._circumstances))
            case Go():
                self._take(self._workers.go(effect, self.now, self._circumstances))
            case Abandon():
                self._workers.abandon(effect.id)
