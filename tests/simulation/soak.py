"""Ten simulated machine-years: ``make soak``. Tells every story that failed, and what was met."""

import sys

from tests.simulation.__main__ import main

if __name__ == "__main__":
    sys.argv[1:] = ["--seed", "1001", "--seeds", "80", "--days", "46", *sys.argv[1:]]
    sys.exit(main())
