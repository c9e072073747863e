"""Serve one machine until the standard input ends; where it is stands on the first line, as JSON."""

import json
import sys

from costguard_azure.testing.azure import FakeAzure


def main() -> None:
    """See the module."""
    with FakeAzure() as azure:
        where = {"folder": azure.folder, "settings": azure.settings, "environ": azure.environ}
        print(json.dumps(where), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
