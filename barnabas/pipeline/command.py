"""`barnabas pipeline NAME ...`: finds the job and becomes its process."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from barnabas.pipeline import JOBS
from barnabas.pipeline.frame import Job


def load(name: str) -> Job:
    """Return a job by its name, which is in JOBS."""
    module = importlib.import_module(f"barnabas.pipeline.{JOBS[name]}")
    job: Job = module.job
    return job


def usage() -> str:
    """Return what `barnabas pipeline --help` prints."""
    width = max(map(len, JOBS)) + 2
    lines = [f"  {name:{width}}{load(name).description}" for name in sorted(JOBS)]
    return "\n".join([
        "usage: barnabas pipeline NAME [options]", "", "Spark jobs on topics:", *lines, "",
        "`barnabas pipeline NAME --help` shows the options of a job.",
    ])  # fmt: skip


def main(arguments: Sequence[str]) -> NoReturn:
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        sys.exit(0)
    if name not in JOBS:
        near = difflib.get_close_matches(name, JOBS, 1)
        meant = f" (is {near[0]} meant?)" if near else ""
        print(f"barnabas pipeline: unknown job {name}{meant}; valid are {', '.join(sorted(JOBS))}", file=sys.stderr)
        sys.exit(2)
    load(name).main(rest)
