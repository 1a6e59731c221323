"""`barnabas pipeline NAME ...`: finds the job and becomes its process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from barnabas.pipeline import JOBS
from barnabas.pipeline.frame import Job
from barnabas.spark.command_line import SPARK, Commands, run


class _Jobs(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return load(cmd_name).command() if cmd_name in JOBS else None


command = _Jobs("pipeline", help="Run Spark jobs on topics.", epilog=SPARK.sentence)


def load(name: str) -> Job:
    """Return a job by its name, which is in JOBS."""
    module = importlib.import_module(f"barnabas.pipeline.{JOBS[name]}")
    job: Job = module.job
    return job


def main(arguments: Sequence[str]) -> NoReturn:
    sys.exit(run(command, arguments, "barnabas pipeline"))
