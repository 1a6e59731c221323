"""How many cores a process may use, by its control groups."""

from __future__ import annotations

import os

import pytest

from runtime.process.os_cores import usable_cores

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, CORES),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"}, CORES),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/cpu.max": "100000 100000\n"}, 1),
        (
            {
                "/proc/self/cgroup": "3:cpu,cpuacct:/x\n1:memory:/y\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "90000\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        (
            {
                "/proc/self/cgroup": "3:cpu:/\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            CORES,
        ),
    ],
)
def test_limits(files: dict[str, str], expected: int) -> None:
    assert usable_cores(files.get) == expected
