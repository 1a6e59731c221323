"""The job `replay` for spark-submit. See `barnabas.pipeline.replay`."""

from __future__ import annotations

from barnabas.pipeline.replay import job

if __name__ == "__main__":
    job.main()
