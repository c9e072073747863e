"""The guard's children on virtual time: each speaks the protocol of its real twin, and fails when told to.

A fault is a word that `costguard.testing.simhost.Faults.take` hands out; without one a program works.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from costguard.config.job import Configured
from costguard.engine.policy import REPEATABLE
from costguard.host.files import COMMITMENTS
from costguard.notify.job import IN_DOUBT, DeliveryResult
from costguard.notify.processes import KINDS
from costguard.process.wire import from_line, to_line
from costguard.process.worker import Done
from costguard.readers.cloud.job import NOTHING_KNOWN, CloudAnswer
from costguard.readers.cloud.tags import asks, settings
from costguard.readers.host.job import HostAnswer
from costguard.readers.host.sense import Activity, Sight
from costguard.readers.question import Question
from costguard.testing.simmachine import IDLE_LOAD
from costguard.testing.simworld import MACHINE_ENDS

if TYPE_CHECKING:
    from costguard.testing.simhost import SimHost

WHOLE_EVERY = 120.0
"""Seconds after which a reader says everything again."""

SLOW_FAILURES = 0.6
"""Share of requests that fail only after a while, as where a gateway gives up."""

SENSELESS = (b"Segmentation fault", b"[1,2]", b'{"read":"x"}', b'{"gpus":', b"\xff\xfe", b"null", b"NaN", b"")

NO_LOADS = (-1, 2.5, "0", True, float("nan"))

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def encode(value: object) -> bytes:
    """One line of JSON."""
    return _ENCODER.encode(value).encode()


class Program:
    """One simulated process. ``fault`` is what goes wrong with it, empty when nothing does."""

    outlives = False  # whether it goes on when the guard dies

    def __init__(self, host: "SimHost", child: int, job: dict[str, Any]) -> None:
        self.host, self.child, self.job = host, child, job
        self.world = host.world
        self.fault = ""
        self.killed = False
        self.begin()

    def begin(self) -> None:
        """The job line arrived."""

    def line(self, data: bytes) -> None:
        """The guard wrote a line."""

    def soon(self, low: float, high: float) -> float:
        """A moment's work, in seconds."""
        return self.world.random.uniform(low, high)

    def write(self, after: float, message: object) -> None:
        """Write a line after a while."""
        self.host.emit(self.child, after, message if isinstance(message, bytes) else encode(message))

    def end(self, after: float, code: int = 0) -> None:
        """End after a while."""
        self.host.expire(self.child, after, code)

    def garbage(self, after: float) -> None:
        """Write what makes no sense."""
        self.write(after, self.world.random.choice(SENSELESS))

    def broken(self, fault: str) -> bool:
        """The faults that every program may have: hang, die, garbage."""
        if fault == "garbage":
            self.garbage(0.1)
            self.end(0.2, 0)
        elif fault == "die":
            self.end(self.soon(0.0, 1.0), self.world.random.choice((-9, -11, 1, 0)))
        return fault in {"garbage", "die", "hang"}


class Reader(Program):
    """The nvml reader."""

    def begin(self) -> None:
        """Remember the counters that an earlier reader left."""
        given = self.job.get("counters") or {}
        self.counters: dict[str, list[float]] = dict(given) if isinstance(given, dict) else {}
        self.last: float | None = None
        self.introduced = False
        self.detached = False
        self.hangs = False
        self.busy_until = 0.0
        self.turn = 0  # another line ends what was to come by itself
        self.told: tuple[int, float, list[list[object]]] = (0, 0.0, [])  # the last whole answer: number, time, GPUs
        self.pairs = False  # whether it may leave every second reading unsaid that is as the one before
        self.unsaid: tuple[int, float] | None = None
        self.said = 0  # number of the last true answer that was written
        self.slept = 0.0

    def line(self, data: bytes) -> None:
        """Answer a read, or misbehave."""
        asked = json.loads(data)
        self.turn += 1
        if "read" not in asked:
            self.detached = "detach" in asked
            return
        self.read(asked["read"])
        if "then" in asked:
            at, every = asked["then"][:2]
            self.pairs, self.slept = asked["then"][2:] == [2], self.world.slept
            self.come(asked["read"] + 1, at + self.world.boot_zero, every, self.turn)

    def read(self, number: int, at: float | None = None) -> None:
        """One read; ``at``: the boot clock's second, of one that was not asked for."""
        if self.hangs:
            return
        fault = self.host.faults.take("nvml", self.host)
        self.hangs = fault == "hang"
        if fault == "down":
            self.fail(number, {} if at is None else {"at": at})
        elif not self.broken(fault):
            self.respond(number, fault, at)

    def come(self, number: int, due: float, every: float, turn: int) -> None:
        """Read without being asked, at that true time and on."""

        def happen() -> None:
            if turn == self.turn:
                self.read(number, self.world.now - self.world.boot_zero)
                self.come(number + 1, due + every, every, turn)

        while due <= self.world.now:
            due += every
        self.world.at(due, lambda: happen() if self.child in self.host.children else None)

    def fail(self, number: int, when: dict[str, float]) -> None:
        """The driver is down: said in one answer, then only a fresh process can do better."""
        words = "the driver is not loaded (NVML 9, Init)"
        rows: list[list[object]] = [[key, None, [], 0, words] for key in self.world.machine.keys]
        self.write(0.05, {"read": number, **when, "gpus": rows, "counters": {}, "error": words, "hardware": True})
        self.end(0.1, 3)

    def respond(self, number: int, fault: str, at: float | None) -> None:
        """Answer a read, rightly or by the letter of ``fault``."""
        delay = {"late": self.soon(6.0, 90.0), "slow": self.soon(1.0, 4.5)}.get(fault, 0.02)
        if fault == "flood":  # each lists no GPU, and that is what the guard may have overheard
            self.host.later(self.child, 0.01, lambda: self.host.watch.ticked(self.world.instant(), []))
            for _ in range(50):
                self.write(0.01, {"read": number - 1, "gpus": []})
        elif fault == "wrong_seq":
            number = self.world.random.choice((self.said, number + 1, number + 7))  # none that is waited for
        elif fault == "nonsense":
            self.write(0.05, self.nonsense(number))
            return
        delay = max(delay, self.busy_until - self.world.now + 0.02)  # one after the other
        self.busy_until = self.world.now + delay
        self.host.later(self.child, delay, lambda: self.say(self.answer(number, fault, at), fault))

    def nonsense(self, number: int) -> dict[str, Any]:
        """An answer of the right form with impossible values."""
        key, choice = self.world.machine.keys[0], self.world.random.choice
        gpu: object = choice(
            (
                [key, choice(NO_LOADS), [], 60.0, ""],
                [key, 0.0, None, 60.0, ""],
                [key, 0.0],
                None,
                [key, None, [], "much", ""],
            )
        )
        if isinstance(gpu, list) and len(gpu) > 2:  # an answer, of which no value is one
            self.host.watch.ticked(self.world.instant(), [[key, None, [], 0.0, ""]])
        return {"read": number, "gpus": [gpu], "counters": choice(({}, None, 7, {key: "x"}))}

    def answer(self, number: int, fault: str, at: float | None) -> dict[str, Any]:
        """What the GPUs show at this moment."""
        now, machine = self.world.now, self.world.machine
        keys = list(enumerate(machine.keys))
        victim = self.world.random.randrange(len(keys)) if fault in {"missing", "partial"} else -1
        gpus: list[list[object]] = []
        boot, counters = now - self.world.boot_zero, dict(self.counters)
        for i, key in keys:
            if i == victim and fault == "missing":
                continue
            why = "detached on request" if self.detached else "NVML 999: unknown error" if i == victim else ""
            gpus.append(self.gpu(i, key, now, boot, why or ("NVML 15: the GPU is lost" if fault == "blind" else "")))
        gpus, seen = self.spoilt(gpus, fault)
        listed = {gpu[0] for gpu in gpus}
        if fault == "wrong_seq":  # a lie, for the truth in it would count
            gpus = [[gpu[0], 0.0, [], *gpu[3:]] for gpu in gpus]
            self.counters = counters
        else:
            self.last = now
        message: dict[str, Any] = {"read": number, "gpus": gpus, "counters": self.counters}
        if not self.introduced:
            self.introduced = victim < 0 and fault != "empty"  # a GPU that comes later is introduced then
            message["info"] = {
                key: {"index": i, "uuid": f"GPU-{i:08x}", "name": machine.model} for i, key in keys if key in listed
            }
        learnt = self.job.get("learnt") or {}
        if fresh := {key: {"bare": 70_000} for _, key in keys if key in listed and key not in learnt}:
            message["learnt"] = fresh
            self.job["learnt"] = {**learnt, **fresh}
        if fault == "learns":
            message["learnt"] = {machine.keys[0]: {"bare": 60_000}}
        if fault in {"ghost", "ghosts"}:
            haunted = machine.keys if fault == "ghosts" else machine.keys[:1]
            message["findings"] = [[key, "ghost", "use that nothing makes"] for key in haunted]
        if fault != "wrong_seq":  # which nobody believes
            self.host.watch.ticked(self.world.instant(), seen)
        if at is None:
            self.told = number, now, gpus
            return message
        if not fault and message.keys() <= {"read", "gpus", "counters"} and self.same(now, gpus):
            return {"same": self.told[0], "read": number, "at": at}
        self.told = number, now, gpus
        return {**message, "at": at}

    def say(self, message: dict[str, Any], fault: str) -> None:
        """Write an answer, or leave it unsaid: of two short ones in a row the first, where the machine did not sleep."""
        if self.pairs and self.unsaid is None and "same" in message:
            slept, self.slept = self.slept, self.world.slept
            if slept == self.slept:
                self.unsaid = message["same"], message["at"]
                self.host.watch.unsaid(self.world.instant())
                return
        if fault != "wrong_seq":  # which nobody believes
            self.said = message["read"]
            if self.unsaid is not None:
                message["unsaid"], self.unsaid = self.unsaid, None
        self.write(0.0, message)

    def spoilt(self, gpus: list[list[object]], fault: str) -> tuple[list[list[object]], list[list[object]]]:
        """What is said of the GPUs, and what a guard may take of that: a load that is none cannot be read."""
        if fault == "empty":
            return [], []
        if fault != "impossible":
            return gpus, gpus
        one = self.world.random.randrange(len(gpus))
        key, _, *rest = gpus[one]
        before, after = gpus[:one], gpus[one + 1 :]
        no_load = self.world.random.choice(NO_LOADS)
        return [*before, [key, no_load, *rest], *after], [*before, [key, None, [], 0.0, ""], *after]

    def same(self, now: float, gpus: list[list[object]]) -> bool:
        """Whether the last whole answer said that, and not long ago."""
        _, since, told = self.told
        return now - since < WHOLE_EVERY and [gpu[:4] for gpu in told] == [gpu[:4] for gpu in gpus]

    def gpu(self, i: int, key: str, now: float, boot: float, why: str) -> list[object]:
        """One GPU: the highest load since the last look, as far back as there is evidence."""
        machine = self.world.machine
        reach = min(boot, machine.ring if self.last is None else min(machine.ring, now - self.last + 0.5))
        load, signs, unknown = machine.look(i, now - reach, now)
        if why or unknown:
            return [key, None, [], 0.0, why or unknown]
        if machine.counters:
            counted = self.counters.get(key)
            if isinstance(counted, list) and len(counted) == 2 and reach < boot - counted[0]:
                # the meter runs on unseen: what it counted since the last read proves a hole quiet, or not
                hole = boot - counted[0]
                top, more, _ = machine.look(i, now - hole, now)
                reach = hole if top <= IDLE_LOAD and not more else reach
            self.counters[key] = [boot, 0.0]
        return [key, load, list(signs), reach, f"load {load:.0%} over {reach:.0f} s"]


class Actor(Program):
    """The action worker: plan, ready, go, outcome; confirm."""

    def begin(self) -> None:
        """Plan, or look what became of an attempt."""
        kind = self.job["job"]
        subjects = {"plan": "plan", "act": "prepare", "confirm": "confirm", "hook": "hook"}
        self.fault = self.host.faults.take(subjects[kind], self.host)
        if self.broken(self.fault):
            return
        if kind == "hook":
            self.world.saved.append((self.world.now, self.job))
            failed = {"status": "failed", "detail": "the pre-stop hook failed with exit code 1", "proof": ""}
            self.report(failed if self.fault == "fail" else {"status": "done", "detail": "", "proof": ""}, 0.5)
            return
        if kind == "confirm":
            self.host.later(self.child, self.soon(0.5, 4.0), self.confirm)
            return
        plan = self.world.verdicts.get(self.job["action"], {"verdict": "go", "findings": []})
        if self.fault in {"refuse", "another"}:
            finding = {"code": "denied", "text": "the right to do this is missing", "hint": "costguard permissions"}
            plan = {"verdict": self.fault, "findings": [finding]}
        delay, verdict = self.soon(0.5, 4.0), plan["verdict"]
        if kind == "act" and verdict in {"go", "consequences"}:
            delay += self.hook(delay)
        self.host.later(self.child, delay, lambda: self.host.watch.planned(self.world.instant(), self.job, verdict))
        self.write(delay, {"plan": {"action": self.job["action"], **plan}})
        if kind == "plan" or plan["verdict"] not in {"go", "consequences"}:
            self.end(delay + 0.05)
        elif self.fault == "die_ready":
            self.write(delay + 0.1, {"ready": True})
            self.end(delay + self.soon(0.2, 90.0), -9)
        else:
            self.write(delay + 0.1, {"ready": True})

    def hook(self, delay: float) -> float:
        """Save work with the GPUs, once for an incident. Returns how long that takes."""
        job, incident = self.job, self.job["incident"]
        if not job.get("hook", {}).get("pre_stop") or job["mode"] != "live" or job.get("asks"):
            return 0.0
        if incident in self.world.hooked:
            return 0.0
        self.world.hooked.add(incident)
        took = self.soon(0.5, float(job["hook"].get("timeout") or 60.0))
        self.write(delay, {"saving": True})
        self.world.machine.hook(self.world.now + delay, self.world.now + delay + took)
        return took

    def line(self, data: bytes) -> None:
        """The guard said *go*."""
        if json.loads(data).get("go") is not True:
            return
        if self.job["mode"] != "live":
            self.report({"status": "refused", "detail": "dry run", "proof": ""}, 0.1)
            return
        self.host.watch.released(self.world.instant(), self.job)
        self.fault = self.host.faults.take("go", self.host)
        attempt = self.job["attempt"]
        if self.fault == "die_before":
            self.end(0.01, -9)
        elif self.fault == "refused":  # by the cloud: nothing came of it, for good
            self.outlives = True
            self.world.results[attempt] = {"status": "refused", "running": False, "ended": self.world.now}
            self.report({"status": "refused", "detail": "denied", "proof": ""}, self.soon(0.1, 3.0))
        elif attempt in self.world.results:
            self.report({"status": "unknown", "detail": "already started; never repeated", "proof": ""}, 0.1)
        else:
            self.outlives = True
            self.world.results[attempt] = {"status": "started", "running": True}
            if self.fault == "die_started":  # killed between its record and the effect
                self.world.results[attempt]["running"] = False
                self.end(0.01, -9)
            elif self.fault == "hang_started":
                pass
            else:
                # what fails may take as long as it may, and the next look is near then
                slow = self.fault == "fail" and self.world.random.random() < SLOW_FAILURES
                self.world.after(self.soon(0.1, 0.93 * self.job["deadline"] if slow else 3.0), self.effect)

    def effect(self) -> None:
        """Act, for good, unless the guard killed it first."""
        if self.killed:
            self.world.results[self.job["attempt"]]["running"] = False
            return
        action = self.job["action"]
        if self.fault != "fail" or action not in REPEATABLE:  # a guest action fails only after it was begun
            self.host.watch.acted(self.world.instant(), self.job)
        status = {"command": "done"}.get(action, "accepted")
        if self.fault == "fail":
            status = "failed"
        elif action in MACHINE_ENDS and self.fault != "nothing_happens":
            self.world.after(self.soon(*self.world.off_delay), self.world.power_off)
        outcome = {"status": status, "detail": "", "proof": f"sim-{self.job['attempt']}"}
        if self.fault == "die_after":
            self.world.results[self.job["attempt"]]["running"] = False
            self.end(0.01, -9)
            return
        if self.fault == "hang_after":
            return
        self.world.results[self.job["attempt"]] = {**outcome, "running": False, "ended": self.world.now}
        if self.fault == "garbage_after":
            self.garbage(0.05)
            self.end(0.1)
        else:
            self.report(outcome, 0.05)

    def report(self, outcome: dict[str, Any], after: float) -> None:
        """Say what became of it and end."""
        now = self.world.instant
        self.host.later(
            self.child, after, lambda: self.host.watch.reported(now(), self.job, outcome) if self.host.alive else None
        )
        self.write(after, {"outcome": outcome})
        self.end(after + 0.02)

    def confirm(self) -> None:
        """What the record and the world say: on a machine that still runs, nothing is seen of an accepted request."""
        record = self.world.results.get(self.job["attempt"])
        if record is None:
            outcome = {"status": "failed", "detail": "the attempt was never started"}
        elif record["status"] == "started":
            alive = record["running"]
            words = "still being executed" if alive else "its worker is gone; it is not repeated"
            outcome = {"status": "pending" if alive else "unknown", "detail": words}
        elif record["status"] == "accepted" and self.fault == "ended":  # the cloud shows another machine, or looks late
            outcome = {"status": "done", "detail": "the machine has ended"}
        elif record["status"] == "accepted":
            outcome = {"status": "accepted", "detail": "accepted, and the machine still runs"}
        else:
            outcome = {"status": record["status"], "detail": ""}
        self.report({"proof": "", **outcome}, 0.05)


HELD_BY: Mapping[str, object] = {"processes": ["train of ann"], "more_processes": 0, "hidden_processes": 0}
"""What the worker finds out itself about who holds the GPUs."""


class Notifier(Program):
    """The notification worker."""

    def begin(self) -> None:
        """Deliver, or fail to."""
        self.fault = self.host.faults.take("notify", self.host)
        message, channels = self.job["message"], self.job["channels"] or ["wall"]
        if self.broken(self.fault):
            self.host.watch.message(self.world.instant(), message, False)
            return
        delay = 4.0 if self.fault == "slow" else self.soon(0.2, 2.0)
        delivered = self.fault != "fail"
        if delivered and self.job.get("again") and message["id"] in self.world.taken:  # whoever has it is spared
            self.write(delay, to_line(DeliveryResult(dict.fromkeys(channels, "1 terminal (pts/0)"))))
            self.end(delay + 0.01)
            return
        self.host.later(self.child, delay, lambda: self.arrives(message, delivered=delivered))
        reached = dict.fromkeys(channels, "1 terminal (pts/0)")
        fate = (
            DeliveryResult(reached)
            if delivered
            else DeliveryResult(failed=dict.fromkeys(channels, "no terminal takes it"))
        )
        fate = fate._replace(beside=HELD_BY if message["kind"] in KINDS else {})
        if self.fault == "partly":  # one channel takes it, and the others do not
            lost = dict.fromkeys(channels[1:], "HTTP 503")
            made = {"id": "summary-1", "title": "what it did", "body": "in a day"}
            fate = DeliveryResult({channels[0]: "JSON"}, lost, beside=made if message["kind"] == "summary" else {})
        if self.fault == "die_after":  # people got it, and the guard does not hear so
            self.end(delay + 0.01, -9)
            return
        self.write(delay + 0.01, to_line(fate))
        self.end(delay + 0.02)

    def arrives(self, message: Mapping[str, Any], *, delivered: bool) -> None:
        """People get it, or nobody does."""
        if delivered:
            self.world.taken.append(message["id"])
        self.host.watch.message(self.world.instant(), dict(message), delivered)


class Recaller(Program):
    """Whoever asks what became of a message; nothing was written down."""

    def begin(self) -> None:
        """Of one message nobody knows; of those of a killed guard there is nothing to say."""
        message, why = self.job.get("message"), f"{self.job['why']}; {IN_DOUBT}"
        if message is not None:
            self.write(0.05, to_line(DeliveryResult(failed=dict.fromkeys(self.job.get("channels", ()), why))))
        self.end(0.06)


class Persister(Program):
    """The worker that writes the commitments onto the disk."""

    def begin(self) -> None:
        """Write, or fail to."""
        self.fault = self.host.faults.take("persist", self.host)
        if self.broken(self.fault):
            return
        delay = self.soon(0.02, 0.5)
        if self.fault == "fail":
            self.write(delay, to_line(Done("No space left on device")))
            self.end(delay + 0.01, 1)
            return
        self.host.later(self.child, delay, self.store)
        self.write(delay + 0.01, to_line(Done("")))
        self.end(delay + 0.02)

    def store(self) -> None:
        """The file is in place."""
        self.world.disk[COMMITMENTS] = self.job["text"].encode()
        self.host.watch.stored(self.world.instant(), json.loads(self.job["text"]))


class Configurer(Program):
    """The worker that checks a new configuration."""

    def begin(self) -> None:
        """Answer with the configuration that `World.configuration` holds, or with errors."""
        self.fault = self.host.faults.take("configure", self.host)
        if self.broken(self.fault):
            return
        found = self.world.configuration
        if found is None or self.fault == "refuse":
            self.write(1.0, to_line(Configured(None, "At 'grace': not a duration")))
        else:
            self.host.later(self.child, 1.0, lambda: self.host.watch.configured(self.world.instant(), found))
            self.write(1.0, to_line(Configured(found, "")))
        self.end(1.1)


class Historian(Program):
    """The worker that writes the history. No moment is drawn by chance: what is recorded must not change a story."""

    def begin(self) -> None:
        """Write, or fail to."""
        self.fault = self.host.faults.take("history", self.host)
        if self.broken(self.fault):
            return
        failed = self.fault == "fail"
        if not failed:
            self.world.history.append(self.job)
        self.write(0.05, to_line(Done("history.db: database or disk is full" if failed else "")))
        self.end(0.06, int(failed))


class Beater(Program):
    """The worker that sends a sign of life."""

    def begin(self) -> None:
        """Send, or fail to."""
        self.fault = self.host.faults.take("beat", self.host)
        if self.broken(self.fault):
            return
        failed = self.fault == "fail"
        if not failed:
            self.world.beats.append((self.world.now, {**self.job["record"], "tag": "tag" in self.job}))
        self.write(0.05, to_line(Done("the heartbeat's address answered HTTP 500" if failed else "")))
        self.end(0.06)


class CloudReader(Program):
    """The reader of what the cloud announces and of the machine's tags. No moment is drawn by chance."""

    def line(self, data: bytes) -> None:
        """Answer a read, or misbehave."""
        fault = self.host.faults.take("cloud", self.host)
        if not self.broken(fault):
            number = from_line(Question, data).read
            self.host.later(self.child, 0.05, lambda: self.answer(number, blind=fault == "blind"))

    def answer(self, number: int, *, blind: bool) -> None:
        """As the metadata service shows it at this moment; ``blind``: it does not answer."""
        answer = NOTHING_KNOWN._replace(read=number, cloud="Simulated", price=self.world.price)
        answer = answer._replace(error="the service does not answer") if blind else self.shown(answer)
        self.host.watch.announced(self.world.instant(), answer)
        self.write(0.0, to_line(answer))

    def shown(self, answer: CloudAnswer) -> CloudAnswer:
        """The answer with notices and tags."""
        wall, tags, cloud = self.world.instant().wall, self.world.tags, self.job["place"]["cloud"]
        answer = answer._replace(
            notices=tuple(
                (name, kind, None if at is None else at - wall, words) for name, kind, at, words in self.world.notices
            )
        )
        if cloud.get("tags") == "off":
            return answer
        wanted, nonsense = settings(tags) if cloud.get("tag_settings") else ({}, [])
        return answer._replace(asks=tuple(asks(tags, wall)), settings=wanted, nonsense=tuple(nonsense))


class HostReader(Program):
    """The reader of what the GPUs do not show. No moment is drawn by chance."""

    def begin(self) -> None:
        """Nothing has been asked."""
        self.turn = 0
        self.since: dict[tuple[str, str], float] = {}
        self.told: object = None
        self.whole = HostAnswer(0, {})  # the last whole answer
        self.planned = 0.0  # the next look of the rhythm of before

    def line(self, data: bytes) -> None:
        """Answer a read, now or when another thing is seen; or misbehave."""
        asked = from_line(Question, data)
        self.turn += 1
        turn, now, planned = self.turn, self.world.now, self.planned
        if now < planned <= now + asked.every:
            self.world.at(
                planned, lambda: self.look(asked, turn, planned) if self.child in self.host.children else None
            )
        else:
            self.look(asked, turn, now)

    def look(self, asked: Question, turn: int, due: float) -> None:
        """One look, and the next one if nothing is new."""
        if turn != self.turn:
            return
        fault = self.host.faults.take("host", self.host)
        if self.broken(fault):
            return
        seen = {name: self.sense(name, blind=fault == "blind") for name in self.job["senses"]}
        if "traffic" in seen and not asked.saving and self.world.machine.hooked(due - 20.0, due):
            sends = Activity("the network", "sends more than it may", due, due, "5 min of quiet")
            seen["traffic"] = seen["traffic"]._replace(active=(*seen["traffic"].active, sends))
        essence = {name: ([one[:2] for one in sight.active], sight.unknown) for name, sight in seen.items()}
        due += asked.every
        self.planned = due
        if essence != self.told or not asked.every or due > asked.until + self.world.boot_zero:
            self.told = essence
            self.host.watch.sensed(self.world.instant(), seen)
            if asked.every and seen == self.whole.senses:
                self.write(0.01, to_line(HostAnswer(asked.read, self.whole.read)))
            else:
                self.whole = HostAnswer(asked.read, seen)
                self.write(0.01, to_line(self.whole))
            return
        again = max(due, self.world.now)
        self.world.at(again, lambda: self.look(asked, turn, again) if self.child in self.host.children else None)

    def sense(self, name: str, *, blind: bool) -> Sight:
        """What one sense sees at this moment."""
        if blind:
            return Sight((), "it cannot see", "nobody")
        boot = self.world.now - self.world.boot_zero
        active = tuple(
            Activity(who, what, self.since.setdefault((name, who), boot), boot, "30 min of quiet")
            for who, what in self.world.activities.get(name, [])
        )
        return Sight(active, self.world.unseen.get(name, ""), "nobody")


PROGRAMS: dict[str, type[Program]] = {
    "beat": Beater,
    "cloud": CloudReader,
    "host": HostReader,
    "nvml": Reader,
    "act": Actor,
    "notify": Notifier,
    "recall": Recaller,
    "persist": Persister,
    "configure": Configurer,
    "history": Historian,
}
