"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Give freed memory back, where the C library has a way; elsewhere nothing happens.

    glibc keeps what was freed below anything still in use: after the logs are read that is
    more than everything in use together. It takes milliseconds, once a phase.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return
    trim(0)
