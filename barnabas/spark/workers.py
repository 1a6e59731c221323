"""Chooses the interpreter of Spark's Python workers where nobody has chosen one.

Spark starts `python3` of the PATH unless PYSPARK_PYTHON names another interpreter. In an environment that is not activated, as
under a notebook, that one has no Barnabas, and often another version of Python.

Rules: on a cluster the executors' machines may lack this interpreter's path, so only a local master's workers run it. It is
called on the driver while a source is registered, before Spark reads the choice; elsewhere there is no context.
Source: pyspark.core.context (`pythonExec`), pyspark.sql.datasource (`DataSourceRegistration.register`).
"""

from __future__ import annotations

import os
import sys

from pyspark import SparkContext


def choose_interpreter() -> None:
    """Let the workers of a local master run this interpreter, unless PYSPARK_PYTHON or spark.pyspark.python names one."""
    context = SparkContext._active_spark_context  # noqa: SLF001  there is no public way to ask without creating one
    if context is None or not context.master.startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and not context.getConf().contains("spark.pyspark.python"):
        context.pythonExec = sys.executable
