"""Ask the kernel whether the wall clock is synchronised. A process of its own, because that needs ctypes (0.7 MB).

Exit code 0: yes, 1: no, 2: cannot tell. Source: adjtimex(2); chrony, ntpd and systemd-timesyncd all set it.
"""

import ctypes

_STA_UNSYNC = 0x0040  # linux/timex.h
_TIME_ERROR = 5  # the return value while the clock is not synchronised
_TIMEX_BYTES = 256  # struct timex is 208 bytes on 64-bit machines
_STATUS_OFFSET = 40  # modes (int, padded), offset, freq, maxerror, esterror (long each), then status


def main() -> int:
    """Ask without changing anything (``modes`` is 0)."""
    if ctypes.sizeof(ctypes.c_long) != 8:
        return 2
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    state = ctypes.CDLL(None).adjtimex(timex)
    if state < 0:
        return 2
    status = ctypes.c_int.from_buffer(timex, _STATUS_OFFSET).value
    return 1 if state == _TIME_ERROR or status & _STA_UNSYNC else 0
