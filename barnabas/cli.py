"""The command `barnabas`: becomes the server's process, in Python's isolated mode, or runs a Spark job (`barnabas pipeline`).

Rules: no parsing here, so that the server starts quickly; `broker.__main__` has the options. A job runs in this process,
with the user's own packages.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from barnabas.launch import command


def main() -> NoReturn:
    if sys.argv[1:2] in (["pipeline"], ["pipelines"]):
        from barnabas.pipeline import command as pipeline  # noqa: PLC0415  the server must start quickly

        pipeline.main(sys.argv[2:])
    # A Ctrl-C from here on waits for the runner: an interpreter that starts up would answer it with a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if sys.stdout is not None:  # else the parent process has closed it
        sys.stdout.flush()
    line = command(*sys.argv[1:])
    os.execv(line[0], line)  # noqa: S606  our own interpreter, no shell


if __name__ == "__main__":
    main()
