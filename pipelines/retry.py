"""The job `retry` for spark-submit. See `barnabas.pipeline.retry`."""

from __future__ import annotations

from barnabas.pipeline.retry import job

if __name__ == "__main__":
    job.main()
