"""What an expression of Prometheus asks for: names of metrics with the labels that it chooses or groups by."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SELECTOR = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?P<labels>\{[^}]*\})?(?P<call>\s*\()?")
_MATCHER = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
_MATCHERS = re.compile(rf"\{{\s*(?:{_MATCHER.pattern}\s*(?:,\s*|(?=\}})))*\}}")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_DURATION = re.compile(r"\[[^\]]*\]")
_WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "inf", "nan"}


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric with the values by label that are asked for, as they are written."""

    metric: str
    labels: dict[str, str]


def selectors(expression: str) -> list[Selector]:
    """Return what an expression reads. Raises ValueError for brackets that do not fit."""
    for opening, closing in ("()", "[]", "{}"):
        if expression.count(opening) != expression.count(closing):
            raise ValueError(f"{opening} without {closing}: {expression}")
    found = []
    for match in _SELECTOR.finditer(_DURATION.sub("", _GROUPING.sub("", expression))):
        name, labels = match["name"], match["labels"]
        if name.lower() in _WORDS or (match["call"] and labels is None):
            continue
        if labels is not None and not _MATCHERS.fullmatch(labels):
            raise ValueError(f"labels are not understood: {labels}")
        found.append(Selector(name, dict(_MATCHER.findall(labels or ""))))
    return found


def grouping_labels(expression: str) -> set[str]:
    """Return the labels by which an expression groups."""
    return {label for match in _GROUPING.finditer(expression) for label in re.findall(r"\w+", match[1])}
