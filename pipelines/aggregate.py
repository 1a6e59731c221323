"""The job `aggregate` for spark-submit: `spark-submit ... pipelines/aggregate.py --source ... --target ...`. See
`barnabas.pipeline.aggregate`."""

from __future__ import annotations

from barnabas.pipeline.aggregate import job

if __name__ == "__main__":
    job.main()
