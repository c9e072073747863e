"""``python -m costguard``: the same as the ``costguard`` command."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # -m puts the working directory first: nothing that lies there may be imported
    from costguard.cli.main import main

    main()
