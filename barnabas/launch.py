"""How a server process is started: Python in isolated mode, on the command beside this file."""

from __future__ import annotations

import os
import sys

CLI = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cli.py")


def command(*arguments: str) -> list[str]:
    """The command line of a server process."""
    return [sys.executable, "-I", CLI, *arguments]
