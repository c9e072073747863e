"""Property tests run from a fixed seed, so that a failure is the same for everybody."""

import os

from hypothesis import HealthCheck, Phase, settings

_COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("ci", derandomize=True, database=None, max_examples=60, **_COMMON)  # type: ignore[arg-type]  # a dict of mixed values
settings.register_profile("explore", max_examples=1000, database=None, **_COMMON)  # type: ignore[arg-type]  # as above
settings.register_profile("raw", max_examples=int(os.environ.get("COSTGUARD_EXAMPLES", "60")), database=None, phases=[Phase.generate], **_COMMON)  # type: ignore[arg-type]  # as above
settings.load_profile(os.environ.get("COSTGUARD_HYPOTHESIS", "ci"))
