"""The configuration: from files, environment and command line to one checked set of values.

Importing this package costs next to nothing; the validation library comes with `load_effective`.
"""

from collections.abc import Mapping


def load_effective(arguments: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, object]:
    """Read, check and merge everything; the answer is what the guard runs with (plain JSON values).

    ``arguments`` may hold ``config`` (path), ``preset``, ``mode``, ``set`` (a list of ``key=value``) and
    ``state_dir``, each absent or None when not given. Of ``environment`` only COSTGUARD_* counts.
    Raises ConfigurationError with every problem at once, also for what others than this user and root could change.
    """
    import os

    from costguard.config.effective import build
    from costguard.config.load import load

    return build(load(arguments, environment, run_by=os.geteuid()))
