"""Which processes hold a GPU, and which of them use it: by number, as the driver lists them."""

from costguard.readers.nvml.codes import ABSENT, NOT_FOUND, SUCCESS, words
from costguard.readers.nvml.library import Handle, Nvml

Held = tuple[list[int] | None, list[int] | None, str]
"""Who has a context, who used the GPU since the last question; None: not known, and why the first is not."""

_NEEDED, _OPTIONAL = "Compute", ("Graphics", "MPSCompute")  # lists of contexts; a card for servers may have no others


class Contexts:
    """Those of one GPU."""

    def __init__(self, nvml: Nvml, handle: Handle) -> None:
        self._nvml, self._handle = nvml, handle
        self._since = 0  # newest sample of use that was seen

    def read(self) -> Held:
        """Both lists now."""
        if self._nvml.mig(self._handle) == (SUCCESS, 1):
            return None, None, "it is divided (MIG)"
        found: set[int] = set()
        for kind in (_NEEDED, *_OPTIONAL):
            code, pids = self._nvml.context_pids(kind, self._handle)
            if code != SUCCESS and (kind == _NEEDED or code not in ABSENT):
                return None, None, f"the processes on it are not listed: {words(code)} (NVML {code})"
            found.update(pids)
        return sorted(found), self._users(), ""

    def _users(self) -> list[int] | None:
        code, rows = self._nvml.process_use(self._handle, self._since)
        if code == NOT_FOUND:
            return []
        if code != SUCCESS:
            return None
        fresh = [(pid, stamp) for pid, stamp, percents in rows if stamp > self._since and 0 < max(percents) <= 100]
        self._since = max([self._since, *(stamp for _, stamp in fresh)])
        return sorted({pid for pid, _ in fresh})
