"""The guard's short-lived children: every effect becomes a process with a deadline and a reported outcome."""

import json
from collections.abc import Mapping
from typing import Any

from costguard.agent.moments import Moments
from costguard.agent.ports import Host, SpawnFailed
from costguard.engine import deadlines
from costguard.engine.effects import Check, Confirm, Go, Prepare, Save, Tell
from costguard.engine.events import Outcome

REACHED_LIMIT = 500
"""Characters of who was reached by a message; they are kept in the state."""

RECEIPT_LIMIT = 4096
"""Characters of a receipt; it is kept in the state and sent in messages."""


def lost(kind: str) -> str:
    """The outcome of a worker that cannot say one: who may have acted, or asks what an action did, proves nothing."""
    return "unknown" if kind in {"act", "confirm"} else "failed"


class Worker:
    """One process and what the engine expects of it."""

    __slots__ = ("deadline", "effect", "kind", "receipt", "reported", "verdict")

    def __init__(self, effect: str, kind: str, deadline: float) -> None:
        self.effect = effect
        self.kind = kind  # tell | check | prepare | act | confirm | save
        self.deadline = deadline
        self.reported = False
        self.verdict: tuple[str, tuple[tuple[str, str, str], ...]] = ("", ())
        self.receipt = ""


class Workers:
    """Starts workers for effects, and turns their lines, ends and silences into outcomes."""

    def __init__(self, host: Host, config: Mapping[str, Any], moments: Moments) -> None:
        self._host, self._moments = host, moments
        self.config = config
        self._waiting: dict[str, tuple[float, Check | Prepare]] = {}  # what has its moment later, by effect id
        self._running: dict[int, Worker] = {}
        self.price: dict[str, Any] = {}  # what the last plan that asked the cloud for it heard of this machine's price

    def submit(self, effect: Check | Prepare, now: float, context: Mapping[str, Any]) -> Outcome | None:
        """Start the worker of an effect now, or, where a fleet would ask its cloud together, at this machine's own moment."""
        for key, (_, kept) in list(self._waiting.items()):
            if type(kept) is type(effect) and kept.action == effect.action:  # the engine no longer asks for that one
                del self._waiting[key]
        at = self._moments.of(effect, now, self.config, str(context.get("reason", "")))
        if at <= now:
            return self.start(effect, now, context)
        self._waiting[effect.id] = (at, effect)
        return None

    def ripe(self, now: float) -> Check | Prepare | None:
        """An effect whose moment has come; it is to be started."""
        found = next((key for key, (at, _) in self._waiting.items() if at <= now), None)
        return None if found is None else self._waiting.pop(found)[1]

    def start(
        self, effect: Tell | Check | Prepare | Confirm | Save, now: float, context: Mapping[str, Any]
    ) -> Outcome | None:
        """Start the worker of an effect; an outcome at once when that fails."""
        kind, program, within, job = self._job(effect, context)
        try:
            child = self._host.spawn(program, json.dumps(job, separators=(",", ":")).encode())
        except SpawnFailed as error:
            return Outcome(now, effect.id, lost(kind), str(error))
        self._running[child] = Worker(effect.id, kind, now + within)
        return None

    def go(self, effect: Go, now: float) -> Outcome | None:
        """Release a waiting worker."""
        for child, worker in self._running.items():
            if worker.effect == effect.id:
                worker.kind = "act"
                worker.deadline = now + deadlines.act(self._action_time(effect.action)).killed
                if self._host.send(child, b'{"go":true}'):
                    return None
                self._drop(child)
                break
        return Outcome(now, effect.id, "failed", "the waiting worker was gone when it was needed")

    def abandon(self, effect_id: str) -> None:
        """End a waiting worker; it has done nothing."""
        self._waiting.pop(effect_id, None)
        for child, worker in list(self._running.items()):
            if worker.effect == effect_id and worker.kind != "act":
                self._drop(child)

    @property
    def telling(self) -> bool:
        """Whether a message is on its way to people."""
        return any(worker.kind == "tell" and not worker.reported for worker in self._running.values())

    def abandon_all(self, *kinds: str) -> None:
        """End every worker of these kinds. One that acts is out of reach: it finishes and records its result."""
        kept = {Check: "check", Prepare: "prepare"}
        self._waiting = {key: entry for key, entry in self._waiting.items() if kept[type(entry[1])] not in kinds}
        for child, worker in list(self._running.items()):
            if worker.kind in kinds and worker.kind != "act":
                self._drop(child)

    def line(self, child: int, data: bytes, now: float) -> Outcome | None:
        """What a worker wrote."""
        worker = self._running.get(child)
        if worker is None or worker.reported:
            return None
        try:
            said = json.loads(data)
            return self._report(worker, said, now) if isinstance(said, dict) else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            worker.reported = True
            return Outcome(now, worker.effect, lost(worker.kind), f"the worker's answer makes no sense ({error})")

    def ended(self, child: int, code: int, now: float) -> Outcome | None:
        """A worker is gone; when it had not reported, that is its outcome."""
        worker = self._running.pop(child, None)
        if worker is None or worker.reported:
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Outcome(now, worker.effect, lost(worker.kind), f"the worker ended without a result ({how})")

    def late(self, now: float) -> list[Outcome]:
        """Kill what is past its deadline."""
        outcomes = []
        for child, worker in list(self._running.items()):
            if now >= worker.deadline:
                self._drop(child)
                if not worker.reported:
                    words = "no answer within its time; it was killed"
                    outcomes.append(Outcome(now, worker.effect, lost(worker.kind), words))
        return outcomes

    @property
    def deadline(self) -> float:
        """When the next worker is late, or has to be started."""
        moments = [at for at, _ in self._waiting.values()]
        return min([worker.deadline for worker in self._running.values()] + moments, default=float("inf"))

    def owns(self, child: int) -> bool:
        """Whether this child is a worker."""
        return child in self._running

    def _drop(self, child: int) -> None:
        self._host.kill(child)
        del self._running[child]

    def _action_time(self, action: str) -> float:
        settings = self.config.get("actions", {}).get(action, {})
        return float(settings.get("timeout") or deadlines.ACTION)

    def _job(
        self, effect: Tell | Check | Prepare | Confirm | Save, context: Mapping[str, Any]
    ) -> tuple[str, str, float, dict[str, Any]]:
        if isinstance(effect, Tell):
            message = {
                "id": effect.id,
                "kind": effect.kind,
                "level": effect.level,
                "facts": {**context, **effect.facts},
            }
            settings, host = self.config.get("notify", {}), self.config.get("host", {})
            job = {
                "message": message,
                "channels": settings.get("channels", []),
                "settings": {**settings, **{name: host[name] for name in ("procfs", "devfs") if name in host}},
                "deadline": deadlines.TOLD,
            }
            return "tell", "notify", deadlines.TELL.killed, job
        hook = self.config.get("hooks", {})
        hook_time = float(hook.get("timeout") or deadlines.HOOK) if hook.get("pre_stop") else 0.0
        kind, word, limits, own = {
            Check: ("check", "plan", deadlines.CHECK, deadlines.FACTS),
            Prepare: ("prepare", "act", deadlines.prepare(hook_time), self._action_time(effect.action)),
            Confirm: ("confirm", "confirm", deadlines.CONFIRM, deadlines.CONFIRMED),
            Save: ("save", "hook", deadlines.save(hook_time), hook_time),
        }[type(effect)]
        job = {
            "job": word,
            "action": effect.action,
            "mode": self.config["policy"]["mode"],
            "attempt": effect.attempt if isinstance(effect, Confirm) else effect.id,
            "incident": getattr(effect, "incident", ""),
            "fallback": effect.action in self.config["policy"].get("fallback", ()),
            "settings": self.config.get("actions", {}).get(effect.action, {}),
            "cloud": self.config.get("cloud", {}),
            "sink": self.config.get("sink", {}),
            "heartbeat": self.config.get("heartbeat", {}),
            "hook": hook,
            "host": self.config.get("host", {}),
            "providers": self.config.get("providers", []),
            "results": self.config["paths"]["runtime"] + "/results",
            "deadline": min(own, max(1.0, effect.seconds)) if isinstance(effect, Save) else own,
            **context,
        }
        return kind, "act", limits.killed, job

    def _report(self, worker: Worker, said: dict[str, Any], now: float) -> Outcome | None:
        if worker.kind == "tell":
            worker.reported = True
            delivered, failed = said.get("delivered") or [], said.get("failed") or {}
            whom = said.get("reached") or {}
            reached = [f"{name}: {whom[name]}" if whom.get(name) else str(name) for name in delivered]
            words = "; ".join(f"{name}: {why}" for name, why in failed.items())
            status = "delivered" if delivered else "failed"
            return Outcome(now, worker.effect, status, words, proof="; ".join(reached)[:REACHED_LIMIT])
        if "plan" in said:
            return self._planned(worker, said["plan"], now)
        if said.get("ready") and worker.kind == "prepare":
            worker.deadline = now + deadlines.READY_KILLED
            return Outcome(now, worker.effect, "ready", findings=worker.verdict[1], receipt=worker.receipt)
        if "outcome" in said:
            worker.reported = True
            outcome = said["outcome"]
            proof = str(outcome.get("proof") or "")
            detail, receipt = outcome.get("detail", ""), _line(outcome.get("receipt"))
            return Outcome(now, worker.effect, outcome["status"], detail, proof=proof, receipt=receipt)
        if "error" in said:
            worker.reported = True
            return Outcome(now, worker.effect, lost(worker.kind), str(said["error"]))
        return None

    def _planned(self, worker: Worker, plan: dict[str, Any], now: float) -> Outcome | None:
        findings = tuple((str(f["code"]), str(f["text"]), str(f.get("hint", ""))) for f in plan.get("findings", ()))
        worker.verdict = (plan["verdict"], findings)
        worker.receipt = _line(plan.get("receipt"))
        self.price = dict(plan.get("price") or self.price)
        final = worker.kind == "check" or plan["verdict"] in {"refuse", "another", "failed"}
        if worker.kind not in {"check", "prepare"} or not final:
            return None
        worker.reported = True
        words = "; ".join(text for _, text, _ in findings)
        return Outcome(now, worker.effect, plan["verdict"], words, findings)


def _line(receipt: object) -> str:
    """A receipt as one line, as it stands in messages; empty for none, and for one that makes no sense."""
    if not isinstance(receipt, dict) or not receipt:
        return ""
    text = json.dumps(receipt, separators=(",", ":"))
    return text if len(text) <= RECEIPT_LIMIT else ""
