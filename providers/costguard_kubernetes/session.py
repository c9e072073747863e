"""Questions and the one request about this pod and what owns it."""

import time
from collections.abc import Iterator

from costguard.cloud.api import Ticket
from costguard.cloud.send import EndRequest, Look, send
from costguard.plans import PlanFinding, Result, Verdict
from costguard.tasks.api import Place, SchedulerError, Task, TaskFacts
from costguard.tasks.outcome import TaskLook, confirmed
from costguard_kubernetes import change, errors
from costguard_kubernetes.api import Api, Request, ends_at
from costguard_kubernetes.kinds import POD, Data, Object, at
from costguard_kubernetes.permissions import spelled
from costguard_kubernetes.survey import Seen, Survey, elsewhere, gpus

SEND_SECONDS = 12.0
"""For the request with all its tries: what is tried later is decided again on fresh readings of the GPUs."""

READ_SHARE = 0.6
"""Of the time for a look: the part for questions about the pod, before rights are asked."""

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Found = tuple[Verdict, PlanFinding]


class PodSession:
    """See `costguard.tasks.api.Session`."""

    def __init__(self, place: Place, task: Task) -> None:
        self._task, self._namespace = task, task.details["namespace"]
        self._api = Api(place)
        self._survey = Survey(self._api, task)

    def look(self, within: float) -> TaskFacts:
        """The pod, its owner and the owner's other pods; whether the request is allowed, and would be taken."""
        end = ends_at(within)
        seen = self._survey.take(ends_at(within * READ_SHARE))
        owner = seen.target.words if seen.target is not None and seen.target.kind is not POD else ""
        given = gpus(seen.pod) if seen.pod is not None else None
        found = tuple(self._findings(seen, end)) if seen.state == "running" else ()
        return TaskFacts(seen.state, seen.said, owner, given, (), elsewhere(seen), found, seen.stamp)

    def end(self, facts: TaskFacts, ticket: Ticket) -> Result:
        """The one request, and the same one again after what passes, each time after a look at what it is about."""
        self._api.named(ticket)
        last = ends_at(min(ticket.deadline, SEND_SECONDS))
        looked = [self._survey.take(last)]  # for the first try; whoever cannot look sends nothing

        def once(left: float) -> Result:
            end = ends_at(left)
            return self._try(facts, looked.pop() if looked else self._survey.take(end), end)

        return send(EndRequest("Kubernetes", once, self._seen_ending, id=ticket.attempt, thing="pod"), last)

    def confirm(self, ticket: Ticket, recorded: Result | None) -> Result:
        """Whether the pod is gone, or is seen to go."""
        seen = self._survey.take(ends_at(ticket.deadline))
        return confirmed(TaskLook("Kubernetes", self._task, seen.state, seen.said), recorded)

    def tell(self, text: str, within: float) -> str:
        """An event of the pod, as `kubectl describe pod` shows it."""
        name, uid = self._task.details["pod"], self._task.details.get("uid", "")
        end = ends_at(within)
        pod = None if uid else self._survey.take(end).pod
        body = change.event(
            pod, self._namespace, name, uid or (pod.uid if pod is not None else ""), " ".join(text.split())
        )
        path = f"/api/v1/namespaces/{self._namespace}/events"
        asking = Request("POST", path, f"writing an event of {self._task.words}", body)
        try:
            self._api.send(asking, end - time.monotonic())
        except SchedulerError as error:
            if error.code != errors.EXISTS:  # the same words of the same second, whose answer was lost
                raise
        return f"the events of {self._task.words}"

    def _findings(self, seen: Seen, end: float) -> Iterator[Found]:
        target = seen.target
        if target is None:
            yield "refuse", PlanFinding("owner_unknown", _unknown(self._task.words, seen), _UNKNOWN_HINT)
            return
        if governor := change.governor(target):
            text = f"{governor} governs {target.words} and would let it go on at once: it is not suspended"
            hint = "end it there: set `spec.active = false` in Kueue's Workload"
            yield "refuse", PlanFinding("owner_governed", text, hint)
            return
        if seen.deleted:
            text = f"scaling {seen.deleted} down deletes its volumes for good: {target.words} is not ended"
            hint = "set persistentVolumeClaimRetentionPolicy of the StatefulSet to Retain"
            yield "refuse", PlanFinding("owner_deletes", text, hint)
            return
        yield "consequences", PlanFinding("owner_ends", self._ends(seen, target))
        yield from self._autoscaled(target, end)
        yield from self._allowed(target, end)

    def _ends(self, seen: Seen, target: Object) -> str:
        made = change.of(target, self._namespace)
        text = (
            f"{made.words}: afterwards {made.back}" if target.kind is POD else f"{made.words}; `{made.back}` undoes it"
        )
        if seen.above is not None:
            text += f"; {seen.above.words} goes on, and may start another one"
        if seen.pod is not None and (volumes := change.scratch(seen.pod)):
            text += f"; what is in {', '.join(volumes)} is lost"
        return text

    def _autoscaled(self, target: Object, end: float) -> Iterator[Found]:
        """An autoscaler pauses at zero, but one that starts things on demand does not."""
        if target.kind.way != "scale":
            return
        path = f"/apis/autoscaling/v1/namespaces/{self._namespace}/horizontalpodautoscalers"
        try:
            listed = self._api.get(path, "listing autoscalers", end).data.get("items")
        except SchedulerError as error:
            if error.technical:
                raise
            text = f"it is unknown whether an autoscaler governs {target.words} ({error.told})"
            yield "consequences", PlanFinding("owner_autoscaled", text, errors.RIGHTS)
            return
        for one in listed if isinstance(listed, list) else ():
            aim = at(one, "spec", "scaleTargetRef")
            if (at(aim, "kind"), at(aim, "name")) == (target.kind.name, target.name):
                text = (
                    f"the HorizontalPodAutoscaler {at(one, 'metadata', 'name')} governs {target.words}: at zero it pauses, until "
                    "somebody scales up again; one that KEDA made may start it again by itself"
                )
                yield "consequences", PlanFinding("owner_autoscaled", text)

    def _allowed(self, target: Object, end: float) -> Iterator[Found]:
        """Ask for exactly the right that is needed, then let the server try the request without carrying it out."""
        made = change.of(target, self._namespace, dry=True)
        resource, _, part = made.resource.partition("/")
        wanted = {
            "namespace": self._namespace, "verb": made.verb, "group": target.kind.group, "resource": resource,
            "subresource": part, "name": target.name,
        }  # fmt: skip
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        asking = Request("POST", REVIEWS, "asking for rights", body)
        named = spelled(made.verb, made.resource, target.kind.group)
        try:
            if at(self._api.ask(asking, end), "status", "allowed") is not True:
                text = f"the pod's service account may not `{named}` in namespace {self._namespace}"
                yield "refuse", PlanFinding("not_permitted", text, errors.RIGHTS)
                return
            tried = self._api.ask(made.request, end)
        except SchedulerError as error:
            if error.technical:
                raise
            yield _untried(error, target)
            return
        if not change.taken(target, tried):
            text = f"the {made.words} would change nothing: this version of the API does not know it"
            yield "refuse", PlanFinding("scheduler_refused", text, "update the cluster, or use another kill_action")

    def _try(self, facts: TaskFacts, seen: Seen, end: float) -> Result:
        """Ask for its end, if it is still the same."""
        target, words = seen.target, self._task.words
        if seen.state == "ended":
            return Result("done", f"{words} had ended by itself: nothing was sent")
        if seen.state == "ending":
            return Result("accepted", f"{words} is being ended already (Kubernetes says {seen.said}): nothing was sent")
        if seen.state != "running" or target is None:
            return Result("refused", f"{words} is not what was checked ({seen.said}): nothing was sent")
        self._same(seen, facts)
        made = change.of(target, self._namespace)
        answer = self._sent(made.request, end)
        if not change.taken(target, answer):
            return Result("refused", f"the API server accepted the {made.words} and silently changed nothing")
        revision = str(at(answer, "metadata", "resourceVersion") or "")
        became = f", resource version {target.revision}, then {revision}" if revision else ""
        return Result("accepted", f"Kubernetes accepted the {made.words}{became}", f"{made.words}{became}")

    def _sent(self, request: Request, end: float) -> Data:
        """What is gone at this moment is looked at once more: the pod goes with it."""
        try:
            return self._api.send(request, end - time.monotonic()).data
        except SchedulerError as error:
            if error.trouble != "gone":
                raise
            raise SchedulerError("internal", str(error), code=errors.CHANGED) from None

    def _same(self, seen: Seen, facts: TaskFacts) -> None:
        """Raises SchedulerError where it is another one, or has changed: then it is for fresh facts to decide."""
        before, _, _ = facts.stamp.partition("|")
        if seen.identity != before:
            text = f"{self._task.words} or its owner is not the one that was checked: nothing was sent"
            raise SchedulerError("changed", text)
        if seen.stamp != facts.stamp:
            text = f"the owner of {self._task.words} has changed since it was checked: nothing was sent"
            raise SchedulerError("internal", text, code=errors.CHANGED, retry_after=None)

    def _seen_ending(self, within: float) -> Look | None:
        try:
            seen = self._survey.take(ends_at(within))
        except SchedulerError:
            return None
        return Look(f"Kubernetes says {seen.said}", seen.state in {"ended", "ending"})


_UNKNOWN_HINT = 'end it where it was started; or kill_action = "command" with a program that does'


def _unknown(words: str, seen: Seen) -> str:
    if seen.above is not None:
        return f"{words} belongs to {seen.above.words}, which would start it again, and which costguard does not know how to end"
    return f"costguard does not know how to end what owns {words}"


def _untried(error: SchedulerError, target: Object) -> Found:
    """What a trial of the request says beforehand."""
    if error.code == errors.BUDGET:
        return "refuse", PlanFinding("disruption_budget", f"{error}: it is not evicted", error.hint)
    if error.code == "BadRequest" and "dry run" in str(error).lower():
        text = f"costguard could not try beforehand whether {target.words} can be changed ({error})"
        return "consequences", PlanFinding("owner_untried", text)
    code = "not_permitted" if error.trouble == "denied" else "scheduler_refused"
    return "refuse", PlanFinding(code, f"{error.told}: it is not ended", error.hint)
