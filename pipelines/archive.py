"""The job `archive` for spark-submit: `spark-submit ... pipelines/archive.py --topics ...`. See `barnabas.pipeline.archive`."""

from __future__ import annotations

from barnabas.pipeline.archive import job

if __name__ == "__main__":
    job.main()
