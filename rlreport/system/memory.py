"""Set how this process uses memory: Python's garbage collector, and what glibc keeps."""

from __future__ import annotations

import gc
from contextlib import suppress


def collect_rarely() -> None:
    """Make Python's garbage collector run less often in this process.

    Call it only in processes that rlreport owns. Rows and table cells are many objects without
    reference cycles; searching them for cycles took a sixth of the time to render a page. Imported
    packages and small logs have fewer objects than the threshold, so that they are not searched.
    """
    gc.set_threshold(500_000, 50, 1000)


def release_memory() -> None:
    """Make glibc return freed memory to the operating system; no effect elsewhere."""
    import ctypes

    with suppress(OSError, TypeError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
