"""Set how this process uses memory: Python's garbage collector, and what glibc keeps."""

from __future__ import annotations

import gc
from contextlib import suppress

# Parameters of mallopt(3): free memory at the end of the heap that stays there, and the size from
# which an allocation is apart from the heap, and given back as soon as it is freed
_TRIM_THRESHOLD = -1
_KEPT_BYTES = 32 << 20
_MMAP_THRESHOLD = -3
_LARGE_BYTES = 4 << 20


def collect_rarely() -> None:
    """Make Python's garbage collector run less often in this process.

    Call it only in processes that rlreport owns. Rows and table cells are many objects without
    reference cycles; searching them for cycles took a sixth of the time to render a page. Imported
    packages and small logs have fewer objects than the threshold, so that they are not searched.
    """
    gc.set_threshold(500_000, 50, 1000)


def keep_freed_memory() -> None:
    """Make glibc keep some freed memory for this process to use again; no effect elsewhere.

    Call it only in processes that rlreport owns. Else arrays of a MB, which are made and freed all
    the time, are given back to the operating system and requested again, each page anew.
    """
    import ctypes

    with suppress(OSError, TypeError, AttributeError):  # not glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def release_memory() -> None:
    """Make glibc return freed memory to the operating system; no effect elsewhere."""
    import ctypes

    with suppress(OSError, TypeError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
