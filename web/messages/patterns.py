"""Regular expressions that users type, and texts that are found whatever their case: RE2's, in linear time. Pure.

Rules: what RE2 does not find in a MiB of memory it looks for more slowly, in time that is in proportion to the size of
the expression's program: both are bounded. RE2 releases the interpreter's lock: large texts are searched in a thread.
"""

from __future__ import annotations

from typing import Final

import re2

MAX_PATTERN_BYTES: Final = 1_024
MAX_PROGRAM: Final = 2_000
"""Instructions of a compiled expression."""
_MAX_COMPILED_BYTES: Final = 1 << 20


class InvalidPattern(ValueError):
    """The text says what is wrong with an expression."""


def compiled(pattern: str, *, ignores_case: bool = False, is_literal: bool = False) -> re2._Regexp:
    """Return what searches bytes. The library keeps nothing of it. Raises InvalidPattern."""
    if not is_literal and len(pattern.encode()) > MAX_PATTERN_BYTES:
        raise InvalidPattern(f"the expression has more than {MAX_PATTERN_BYTES} bytes")
    options = re2.Options()
    options.max_mem = _MAX_COMPILED_BYTES
    options.log_errors = False
    options.never_capture = True
    options.literal = is_literal
    options.case_sensitive = not ignores_case
    try:
        made = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"{pattern!r} is no expression of RE2: {shown}") from None
    finally:
        re2.purge()  # the library would keep 128 of them
    if not is_literal and made.programsize > MAX_PROGRAM:
        raise InvalidPattern(f"{pattern!r} is too large when its repetitions are written out")
    return made
