"""Slurm: `scancel` of the one job in which costguard was started, or for which a prolog started it. The node never.

What it knows of Slurm is from its manual pages (scontrol, scancel, sbatch, prolog_epilog, cgroup.conf) and was seen with 22.05.
"""

from costguard.cloud.api import Permission, Setting
from costguard.tasks.api import Place, Session, Task
from costguard_slurm import identity


class Slurm:
    """See `costguard.tasks.api.Scheduler`."""

    name = "Slurm"
    tells = True
    identify = staticmethod(identity.identify)
    settings = (
        Setting(
            "programs",
            "The folder of `scontrol` and `scancel`. Empty: the search path, which a prolog does not have.",
            "",
            "/opt/slurm/bin",
            "an absolute path, or nothing",
            "file",
        ),
    )

    def recognises(self, place: Place) -> bool:
        """By the control group of this process, or by the environment that Slurm gives to a job and to its prolog."""
        return bool(identity.job_of(place.procfs, "self") or identity.named(place.environ))

    def belongs(self, place: Place, task: Task, pid: int) -> bool | None:
        """By its control group; without such groups nobody knows."""
        job = identity.job_of(place.procfs, str(pid))
        return None if not job else job == task.details["job"]

    def open(self, place: Place, task: Task) -> Session:
        """Nothing is asked yet."""
        from costguard_slurm.session import Job

        return Job(place, task)

    def permissions(self) -> tuple[Permission, ...]:
        """Slurm has no finer rights for a user's own job."""
        return (
            Permission("owner of the job, or root", "to cancel it, and to write to its output"),
            Permission(
                "PrivateData without `jobs`", "to see a job of somebody else; its owner needs nothing", needed=False
            ),
        )


PROVIDER = Slurm
