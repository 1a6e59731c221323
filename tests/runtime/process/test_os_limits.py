"""The soft limit of open files is raised to the hard one."""

from __future__ import annotations

import resource
import subprocess
import sys

from runtime.process.os_limits import MOST_FOR_FILES, last_descriptor_to_connect

PROGRAM = """
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
from runtime.process.os_limits import raise_open_files_limit
print(raise_open_files_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard)
"""


def test_the_limit_is_raised() -> None:
    """In a process of its own: this one's limit is nobody's to change."""
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    answered, soft, hard = map(int, answer.stdout.split())
    assert answered == soft == hard == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def test_the_last_open_files_are_not_for_connections() -> None:
    assert last_descriptor_to_connect(1024) == 1023 - 128
    assert last_descriptor_to_connect(1 << 20) == (1 << 20) - 1 - MOST_FOR_FILES
    assert last_descriptor_to_connect(resource.RLIM_INFINITY) > 1 << 32
