"""The worker that sends one sign of life, to an address and into the machine's tag: ``python -m costguard.actions.beat``."""

import sys
from collections.abc import Callable

from costguard.actions import sink
from costguard.actions.job import BeatJob
from costguard.masking import mask
from costguard.parent import end_with_parent
from costguard.process.worker import Done, serve

SETTINGS = ("url", "method", "token_file")
"""Those of ``[heartbeat]`` that a sink knows."""

ADDRESS = "the heartbeat's address"
"""What its failures call it: a sink is where records of incidents go."""


def main() -> int:
    """Do one job."""
    end_with_parent()
    return serve(BeatJob, send, Done)


def send(job: BeatJob) -> Done:
    """Send it wherever it is wanted."""
    settings = {name: job.settings.get(name) for name in SETTINGS}
    found = sink.deliver(settings, job.record, job.deadline, _tag(job), ADDRESS)
    troubles = [each.trouble for each in found if each.trouble]
    return Done("; ".join(troubles) if found else "neither an address nor a tag is configured")


def _tag(job: BeatJob) -> Callable[[float], str] | None:
    """What writes the tag; None when this beat has none. The plug-ins are loaded for it alone."""
    if job.tag is None:
        return None
    if job.mode != "live":
        return lambda _: "dry run: the machine's tag is not written"
    from costguard.cloud import tags
    from costguard.cloud.api import CloudError

    place = job.tag
    beat = {tags.HEARTBEAT: tags.heartbeat_value(str(job.record["state"]), float(str(job.record["at"])))}

    def write(within: float) -> str:
        try:
            tags.write(beat, place, within, live=True)
        except CloudError as error:
            return f"the machine's tag could not be written: {mask(str(error))}"
        return ""

    return write


if __name__ == "__main__":
    sys.exit(main())
