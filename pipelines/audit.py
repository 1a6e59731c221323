"""The job `audit` for spark-submit. See `barnabas.pipeline.audit`."""

from __future__ import annotations

from barnabas.pipeline.audit import job

if __name__ == "__main__":
    job.main()
