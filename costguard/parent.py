"""A process that ends with the one that started it, also in the middle of a call that hangs. Source: prctl(2)."""

import ctypes

_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_LIBC = ctypes.CDLL(None)


def end_with_parent(number: int = _SIGKILL) -> None:
    """Let this process get that signal when its parent is gone, also after exec; 0: none any more.

    The kernel forgets it with every change of the user.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
