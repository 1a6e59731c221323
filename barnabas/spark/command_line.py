"""What all commands share, for the jobs: they load no package of the server by its name."""

from __future__ import annotations

from runtime.clock import SystemClock
from runtime.command_line.extras import SPARK
from runtime.command_line.group import HELP_OPTIONS, Commands, run
from runtime.command_line.parsing import duration_or_none, time_ms
from runtime.status_line import StatusLine
from runtime.suggestions import did_you_mean

__all__ = [
    "HELP_OPTIONS", "SPARK", "Commands", "StatusLine", "SystemClock", "did_you_mean", "duration_or_none", "run", "time_ms",
]  # fmt: skip
