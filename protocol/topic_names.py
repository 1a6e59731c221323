"""Which texts are names of topics. Pure.

Source: Kafka Topic.validate.
"""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def problem_of_name(name: str) -> str | None:
    """Return why it can be no topic's name, in Kafka's words; None when it can."""
    if name == "":
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if _LEGAL_NAME.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
