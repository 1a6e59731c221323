"""Where this package runs: on Linux, with the versions of Python that it is tested with.

Rules: standard library only, in a form that older versions of Python can read: they are to end with a sentence. What is refused
is told as the rest of a sentence whose subject is the caller's: "runs on Linux; this is Darwin".
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OLDEST, NEWEST = (3, 11), (3, 14)
_NAMES = {"darwin": "Darwin", "win32": "Windows", "cygwin": "Cygwin"}


def python_refusal(version: Sequence[object]) -> str | None:
    """Return why a version of Python, as in `sys.version_info`, is not supported; None if it is."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return None
    oldest, newest, this = (".".join(map(str, each)) for each in (OLDEST, NEWEST, version[:2]))
    return f"runs on Python {oldest} to {newest}; this is {this}"


def system_refusal(system: str) -> str | None:
    """Return why the server does not run on a system, as in `sys.platform`; None if it does."""
    return None if system == "linux" else f"runs on Linux; this is {_NAMES.get(system, system)}"
