"""The job `route` for spark-submit. See `barnabas.pipeline.route`."""

from __future__ import annotations

from barnabas.pipeline.route import job

if __name__ == "__main__":
    job.main()
