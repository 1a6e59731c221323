"""What commands end with, beside 0 for done. Imports little, because completion reads it, too."""

from __future__ import annotations

import signal

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
"""A Ctrl-C, as shells count it."""
