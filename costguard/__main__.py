"""``python -m costguard``: the same as the ``costguard`` command."""

from costguard.cli.main import main

if __name__ == "__main__":
    main()
