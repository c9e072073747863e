"""Property tests run from a fixed seed, so that a failure is the same for everybody, and however busy a machine is.

Of the whole suite: `tests.conftest` loads it; in a copy with the engine's tests alone their own conftest does.
"""

import os

from hypothesis import HealthCheck, Phase, settings

COMMON = settings(
    deadline=None,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("ci", COMMON, derandomize=True, max_examples=30)
settings.register_profile("thorough", COMMON, derandomize=True, max_examples=100)
settings.register_profile(
    "mutants",
    COMMON,
    derandomize=True,
    max_examples=int(os.environ.get("COSTGUARD_EXAMPLES", "60")),
    phases=[Phase.explicit, Phase.generate],
)  # no shrinking
settings.register_profile("explore", COMMON, max_examples=1000)
settings.register_profile(
    "raw", COMMON, max_examples=int(os.environ.get("COSTGUARD_EXAMPLES", "60")), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("COSTGUARD_HYPOTHESIS", "ci"))
