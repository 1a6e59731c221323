"""The job `inspect` for spark-submit. See `barnabas.pipeline.inspect`."""

from __future__ import annotations

from barnabas.pipeline.inspect import job

if __name__ == "__main__":
    job.main()
