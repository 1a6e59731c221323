"""The process that forks Spark's Python workers, with what the source needs loaded before the fork.

Used by `spark.python.daemon.module=barnabas.spark.daemon`, which the jobs set; `pyspark.daemon` does the work. Workers share
the loaded modules, so none of them takes half a second to import them.

At the begin of every task a worker tells Python to forget what its import system knows of folders. Before Python 3.12 that
reads the directories of all archives on `sys.path` again, which are Spark's own and every jar that it was given: 0.1 seconds a
task and more. Here an archive that has not changed is not read again.

Rules: standard output belongs to Spark, which reads a port from it. Loads nothing of the user's.
Source: pyspark.daemon; CPython issue 103200.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import zipimport
from collections.abc import Callable

_LAZY_SINCE = (3, 12)


def keep_unchanged_archives(rescan: Callable[[zipimport.zipimporter], None]) -> Callable[[zipimport.zipimporter], None]:
    """`rescan`, but for an archive that has the size and the time of change that it had when this saw it last."""
    seen: dict[str, tuple[int, int] | None] = {}

    def invalidate_caches(importer: zipimport.zipimporter) -> None:
        try:
            found = os.stat(importer.archive)
            state = found.st_mtime_ns, found.st_size
        except OSError:
            state = None
        if importer.archive not in seen or seen[importer.archive] != state:
            seen[importer.archive] = state
            rescan(importer)

    return invalidate_caches


def main() -> None:
    """Be the daemon. Returns when Spark ends it."""
    from pyspark import daemon  # noqa: PLC0415  it looks at the command line

    import barnabas.spark.source  # noqa: F401, PLC0415  for the workers

    if sys.version_info < _LAZY_SINCE:
        kept = keep_unchanged_archives(zipimport.zipimporter.invalidate_caches)
        zipimport.zipimporter.invalidate_caches = kept  # type: ignore[method-assign, assignment]
        importlib.invalidate_caches()  # so that workers know the archives from their begin on
    gc.collect()
    gc.freeze()  # a worker collects garbage after each task: not what it was forked with
    daemon.manager()


if __name__ == "__main__":
    main()
