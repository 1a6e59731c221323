"""What the system grants this process: as many open files as it is allowed to ask for.

Systems start processes with a soft limit of 1024 for the sake of programs that use `select`, far below the hard one; a
broker has a file for each connection and each segment in use. Source: HotSpot does the same (-XX:+MaxFDLimit).

Of these, the last ones are for files: a broker that can open none for a moment, because clients have them all, would
take its log directories for broken.
"""

from __future__ import annotations

import resource
import sys

# A share of all, and never more than so many: what is opened at the same time, segments that roll and checkpoints, is little.
SHARE_FOR_FILES = 8
MOST_FOR_FILES = 4096


def raise_open_files_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns the limit that applies now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS says "unlimited" and refuses it
            return soft
    return hard


def last_descriptor_to_connect(limit: int) -> int:
    """Return the highest descriptor that a connection may have. `limit` is the result of `raise_open_files_limit`."""
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit - 1 - min(limit // SHARE_FOR_FILES, MOST_FOR_FILES)
