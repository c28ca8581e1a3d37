"""Memory that is handed back and asked for again, page by page, at every large array.

The C library of Linux takes arrays beyond a threshold straight from the system and hands them back
at once; every page of the next one is then cleared anew, which costs more than small batches of
matrices do. The threshold follows the largest array that was freed, up to 32 MB: one array of that
size, never written to, puts it there. Elsewhere this does nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_NUMBERS = 4_000_000  # just below 32 MB


@cache
def keep_pages() -> None:
    """Once in a process: arrays of up to 32 MB come from memory that stays."""
    np.empty(_NUMBERS)
