"""Determined: the kill of the one task in whose container costguard was started, through the master's REST API.

What it knows of Determined is from the client of 0.38.1 (its bindings of the API, and what its containers read from their environment).
"""

from costguard.cloud.api import Permission, Setting
from costguard.tasks.api import Place, Session, Task
from costguard_determined import identity


class Determined:
    """See `costguard.tasks.api.Scheduler`."""

    name = "Determined"
    tells = False  # what the watcher itself writes is in the task's log already
    identify = staticmethod(identity.identify)
    settings = (
        Setting(
            "master",
            "Another address of the master than that of the task's environment (DET_MASTER).",
            "",
            "https://determined.example.org:8443",
            "a URL that begins with http:// or https://, or nothing",
            "url",
        ),
        Setting(
            "token_file",
            "A file with the token of a user who may end the task. Empty: the token that Determined gives to the task.",
            "",
            "/etc/costguard/determined-token",
            "an absolute path, or nothing",
            "file",
        ),
    )

    def recognises(self, place: Place) -> bool:
        """By the environment of its containers."""
        return bool(identity.named(place.environ))

    def belongs(self, place: Place, task: Task, pid: int) -> bool | None:
        """By the allocation in its environment; without a container of its own others' processes are to be seen."""
        found = identity.allocation_of(place.procfs, pid)
        return None if not found else found == task.details["allocation"]

    def open(self, place: Place, task: Task) -> Session:
        """Nothing is asked yet."""
        from costguard_determined.session import Remote

        return Remote(place, task)

    def permissions(self) -> tuple[Permission, ...]:
        """With role-based access control each is a permission of the task's workspace."""
        return (
            Permission(
                "owner of the task, or an administrator", "to see and to end it: the token of the task is its owner's"
            ),
            Permission("UPDATE_NSC, UPDATE_EXPERIMENT", "to end tasks of others, where roles are used", needed=False),
        )


PROVIDER = Determined
