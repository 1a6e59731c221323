"""The job `mirror` for spark-submit. See `barnabas.pipeline.mirror`."""

from __future__ import annotations

from barnabas.pipeline.mirror import job

if __name__ == "__main__":
    job.main()
