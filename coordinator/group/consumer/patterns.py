"""Subscriptions of consumer groups by regular expression: what is a valid one, and which topics it matches.

Rules: pure. The syntax is RE2's, whose matching takes time in proportion to the length of the text, whatever the expression is.
An expression matches a topic when it matches the whole name. `invalid_text` may run on the event loop: it takes less than a
millisecond, and some 60 ms for an expression that is made to take long. `resolve` runs in a thread: RE2 releases the
interpreter's lock while it matches.
Nothing compiled is kept: expressions are resolved again only after seconds, and each may need `MAX_COMPILED_BYTES`.
Source: Kafka Utils.throwIfRegularExpressionIsInvalid, TopicRegexResolver. Kafka 4.3.0 uses RE2/J, an RE2 in Java, so the
library here tells the same mistakes in other words; `_DESCRIPTIONS` has those of RE2/J.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import re2

MAX_EXPRESSION_BYTES: Final = 4_096
"""In UTF-8. To read an expression takes up to 15 us for each byte of it (`\\pL` has 600 ranges of characters)."""

MAX_COMPILED_BYTES: Final = 1024 * 1024
"""RE2's `max_mem`: for the program of one expression (some 40,000 instructions), and for what it remembers while it matches."""

MAX_EXPRESSIONS: Final = 1_000
"""How many different expressions the members of one group may have."""

_TOO_LARGE: Final = "expression too large"
_DESCRIPTIONS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",  # so says RE2/J
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": _TOO_LARGE,
}


def invalid_text(expression: str, subscribed: Collection[str] = ()) -> str | None:
    """What an answer of INVALID_REGULAR_EXPRESSION says about `expression`; None: it is valid.

    `subscribed` are the expressions that the group has already.
    """
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        return f"SubscribedTopicRegex is longer than {MAX_EXPRESSION_BYTES} bytes."
    if len(subscribed) >= MAX_EXPRESSIONS and expression not in subscribed:
        return f"The group has {MAX_EXPRESSIONS} regular expressions, and may have no more."
    try:
        _compiled(expression)
    except re2.error as error:
        return f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {_description(error)}."
    return None


def resolve(expressions: Iterable[str], topics: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics that each expression matches. One that is not valid, which another broker has stored, matches none."""
    names = [(topic, topic.encode()) for topic in topics]
    resolved: dict[str, frozenset[str]] = {}
    for expression in expressions:
        try:
            matches = _compiled(expression).fullmatch
        except re2.error:
            resolved[expression] = frozenset()
        else:
            resolved[expression] = frozenset(topic for topic, name in names if matches(name) is not None)
    return resolved


def _compiled(expression: str) -> re2._Regexp:
    """Raises: re2.error."""
    options = re2.Options()
    options.max_mem = MAX_COMPILED_BYTES
    options.log_errors = False
    options.never_capture = True  # matching would take time in proportion to the number of groups
    try:
        return re2.compile(expression, options)
    finally:
        re2.purge()  # the library would keep 128 of them


def _description(error: re2.error) -> str:
    text: str = error.args[0].decode("utf-8", "replace")
    words, _, part = text.partition(": ")
    if part.startswith("(?<"):
        return "invalid named capture"
    return _DESCRIPTIONS.get(words, words)
