"""What an expression of Prometheus asks for: names of metrics with the labels that it chooses or groups by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import promql_parser

# What Grafana puts in place of its own variable.
RATE_INTERVAL, SOME_INTERVAL = "$__rate_interval", "5m"


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric with the values by label that are asked for, as they are written."""

    metric: str
    labels: dict[str, str]


def selectors(expression: str) -> list[Selector]:
    """Return what an expression reads. Raises ValueError for one that Prometheus would refuse."""
    return [
        Selector(part.name, {matcher.name: matcher.value for matcher in part.matchers.matchers})
        for part in _parts(_parsed(expression))
        if isinstance(part, promql_parser.VectorSelector)
    ]


def grouping_labels(expression: str) -> set[str]:
    """Return the labels by which an expression groups or joins."""
    found: set[str] = set()
    for part in _parts(_parsed(expression)):
        modifier = getattr(part, "modifier", None)
        if isinstance(part, promql_parser.AggregateExpr):
            found.update(() if modifier is None else modifier.labels)
        elif isinstance(part, promql_parser.BinaryExpr) and modifier is not None and modifier.matching is not None:
            found.update(modifier.matching.labels)
    return found


def _parsed(expression: str) -> promql_parser.Expr:
    return promql_parser.parse(expression.replace(RATE_INTERVAL, SOME_INTERVAL))


def _parts(expression: promql_parser.Expr) -> Iterator[promql_parser.Expr]:
    yield expression
    inner = [getattr(expression, name, None) for name in ("expr", "lhs", "rhs", "vector_selector")]
    for part in (*inner, *getattr(expression, "args", ())):
        if part is not None:
            yield from _parts(part)
