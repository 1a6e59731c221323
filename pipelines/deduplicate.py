"""The job `deduplicate` for spark-submit. See `barnabas.pipeline.deduplicate`."""

from __future__ import annotations

from barnabas.pipeline.deduplicate import job

if __name__ == "__main__":
    job.main()
