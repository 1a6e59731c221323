"""Spark jobs on topics, for PySpark: `barnabas pipeline NAME ...`, or as functions in programs of one's own.

    from barnabas.pipeline import archive

    query = archive.job(spark, topics="orders", output="/archive", checkpoint="/var/lib/archive")

Each job is a module with a `job` (`barnabas.pipeline.frame.Job`). What a job decides about records is in pure modules
beside it; what all jobs share (options, the Spark session, sources and sinks, progress, the end) is in the modules of the
frame. Needs the extra `spark`: `pip install ".[spark]"` in a clone. Nothing here imports pyspark before a job runs.
"""

from __future__ import annotations

JOBS = {name: name for name in ("aggregate", "archive", "audit", "deduplicate", "inspect", "mirror", "replay", "route")}
"""The module of each job, by its name."""
