"""Whether apprise can use the addresses of channels. Asked when a configuration is checked, in a short-lived process; nothing is sent."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from costguard.config.addresses import Lack, lacks
from costguard.masking import mask
from costguard.notify import secret_urls
from costguard.notify.job import STORED, Judged, JudgeJob
from costguard.notify.message import DeliveryError
from costguard.process.child import EndedError, SilentError, first_answer
from costguard.process.wire import MalformedError
from costguard.process.worker import serve

WITHIN_SECONDS = 20.0
"""Time for the process to start and load apprise on a busy machine."""


def troubles(channels: Mapping[str, Mapping[str, object]]) -> list[Lack]:
    """What is wrong with channels beyond this machine, as this process sees it; an address is never quoted.

    Addresses that apprise did not judge in time are not reported.
    """
    found = lacks(channels)
    references = {name: str(channel.get("urls", "")) for name, channel in channels.items()}
    lacking = {lack.channel for lack in found}
    asked = {
        name: urls
        for name, urls in references.items()
        if name not in lacking and not urls.startswith(STORED)  # the cloud's store is asked when it counts
    }
    judged = Judged()
    with suppress(SilentError, EndedError, MalformedError):
        judged = first_answer("addresses", Judged, JudgeJob(asked), WITHIN_SECONDS) if asked else judged
    for name, words in judged.bad.items():
        certain = references[name].startswith("file:")  # a variable and a credential of the agent may be others
        found.append(Lack(name, words, certain, partly=name in judged.partly))
    return found


def judge(job: JudgeJob) -> Judged:
    """What is wrong with the addresses of each channel."""
    bad, partly = {}, []
    for name, reference in job.references.items():
        words, part = _of_channel(reference)
        if words:
            bad[name] = words
        if part:
            partly.append(name)
    return Judged(bad, tuple(partly))


def _of_channel(reference: str) -> tuple[str, bool]:
    """What is wrong with the addresses of one channel, and whether others of it are fine."""
    try:
        urls = secret_urls.read(reference, os.environ)
    except DeliveryError as error:
        return mask(str(error)), False
    try:
        from costguard.notify.remote import unusable

        bad = unusable(urls)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, no message would leave
        return f"apprise cannot be used: {type(error).__name__} (reinstall costguard in its environment)", False
    words = [(f"address {number}: " if len(urls) > 1 else "") + one.why for number, one in bad.items()]
    return "; ".join(words), 0 < len(bad) < len(urls)


def main() -> int:
    """Do one job."""
    return serve(JudgeJob, judge, lambda error: Judged(error=error))


if __name__ == "__main__":
    sys.exit(main())
