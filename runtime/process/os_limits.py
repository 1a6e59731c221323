"""Raises this process's limit of open files to the maximum that it may have, and reserves descriptors for files.

Systems start processes with a soft limit of 1024 because of programs that use `select`, far below the hard one; a broker
has a descriptor for each connection and each segment in use. Source: HotSpot does the same (-XX:+MaxFDLimit).

The highest descriptors are reserved for files: a broker that cannot open a file, because clients use all descriptors, would
consider its log directories failed.
"""

from __future__ import annotations

import resource
import sys

# The share reserved for files, and its maximum: few files are opened at the same time (rolled segments, checkpoints).
SHARE_FOR_FILES = 8
MOST_FOR_FILES = 4096


def raise_open_files_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns the limit that applies now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS reports "unlimited" and refuses it
            return soft
    return hard


def last_descriptor_to_connect(limit: int) -> int:
    """Return the highest descriptor that a connection may have. `limit` is the result of `raise_open_files_limit`."""
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit - 1 - min(limit // SHARE_FOR_FILES, MOST_FOR_FILES)
