"""What the system grants this process: as many open files as it is allowed to ask for.

Systems start processes with a soft limit of 1024 for the sake of programs that use `select`, far below the hard one; a
broker has a file for each connection and each segment in use. Source: HotSpot does the same (-XX:+MaxFDLimit).
"""

from __future__ import annotations

import resource


def raise_open_files_limit() -> int:
    """Answers the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS says "unlimited" and refuses it
            return soft
    return hard
