"""The command `barnabas`, in one process: puts the server's packages before other people's, and runs the command.

It is the console script, `python -m barnabas`, and the file that `python -I` runs (`barnabas.launch`).

Rules: the server's packages have short names (`config`, `storage`), which may be in the current folder, in PYTHONPATH and in
the user's site, too. Before anything else is imported, the server's folder comes first on `sys.path`, and what `python -I`
leaves out comes last; a module of such a name that a .pth file or a sitecustomize has loaded is forgotten. A Spark job has
the user's own packages instead, and loads the server's under a private name (`barnabas.spark`).
Until a command says what Ctrl-C means to it there is nothing to put in order, and it ends the process as a signal does: an
exception in the middle of an import would be a page of text.
Source: docs/decisions/026-one-process.md.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = ("pipeline", "pipelines")


def server_folder() -> str:
    """Where the server's packages are: inside the installed package, or the root of a checkout."""
    installed = os.path.join(HERE, "_server")
    return installed if os.path.isdir(installed) else os.path.dirname(HERE)


def stand_apart(folder: str) -> None:
    """Arrange `sys.path`, and forget modules of others that have the names of the server's packages in `folder`."""
    environment = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    site = sys.modules.get("site")  # not under `python -S`
    sys.path[:] = [folder, *own_first(
        [absolute(entry) for entry in sys.path],
        started_in=() if sys.flags.safe_path else (absolute(""), os.path.dirname(os.path.realpath(sys.argv[0]))),
        given=[absolute(entry) for entry in environment.split(os.pathsep)] if environment else (),
        user_site=getattr(site, "USER_SITE", None),
        site_packages=() if site is None else site.getsitepackages(),
    )]  # fmt: skip
    names = set(os.listdir(folder)) - {"barnabas"}
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]


def own_first(
    path: Sequence[str],
    *,
    started_in: Container[str],
    given: Container[str],
    user_site: str | None,
    site_packages: Container[str],
) -> list[str]:
    """Return a `sys.path` without the first entry where that is a folder in which the command was started, and with the user's
    last: the user's site with what its .pth files have added, then the entries `given` in PYTHONPATH."""
    own: list[str] = []
    users: list[str] = []
    last: list[str] = []
    is_users = False
    for entry in path[1:] if path and path[0] in started_in else path:
        is_users = entry not in site_packages and (is_users or (entry == user_site and entry not in given))
        (last if entry in given else users if is_users else own).append(entry)
    return own + users + last


def absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the current folder has been deleted
        return path


def main() -> NoReturn:
    jobs = sys.argv[1:2] and sys.argv[1] in JOBS
    if not jobs:
        stand_apart(server_folder())
    if os.path.dirname(HERE) not in sys.path:  # isolated mode leaves out the user's site, which may have this package
        sys.path.append(os.path.dirname(HERE))
    import signal  # noqa: PLC0415  the path above comes first

    from barnabas.supported import python_refusal, system_refusal  # noqa: PLC0415

    refusal = python_refusal(sys.version_info) or (None if os.name == "posix" else system_refusal(sys.platform))
    if refusal is not None:
        sys.exit(f"barnabas {refusal}")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it to be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if jobs:
        from barnabas.pipeline import command as pipeline  # noqa: PLC0415

        pipeline.main(sys.argv[2:])
    from barnabas import commands  # noqa: PLC0415

    sys.exit(commands.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
