"""Short-lived worker: reads and checks the configuration for a reload, so that the guard stays small."""

import sys

from costguard.config import load_effective
from costguard.config.addresses import missing
from costguard.config.job import Configured, ConfigureJob
from costguard.config.load import ConfigurationError
from costguard.process.worker import serve


def configure(job: ConfigureJob) -> Configured:
    """Read it as at the start of the agent."""
    try:
        effective = load_effective(job.arguments, job.environment)
        return Configured({**effective, "unaddressed": missing(effective)}, "")
    except ConfigurationError as error:
        return Configured(None, "; ".join(error.problems))


def main() -> int:
    """Do one job."""
    return serve(ConfigureJob, configure, lambda error: Configured(None, error))


if __name__ == "__main__":
    sys.exit(main())
