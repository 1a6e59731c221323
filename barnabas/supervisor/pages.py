"""One page of metrics for several brokers: the samples of all, each with the label `broker`. Pure.

Rules: a metric has its HELP and TYPE once, and all its samples together, as the format wants it; who is down has no samples,
and `barnabas_supervisor_broker_up` says so. Pages are taken line by line: values are not read.
Source: the Prometheus text exposition format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def merged_page(pages: Mapping[int, str], own: Iterable[str]) -> str:
    """Return the page. `pages` are those of brokers by id, `own` the lines of the command itself."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for broker_id, page in pages.items():
        _take(families, page, f'broker="{broker_id}"')
    lines = [line for head, samples in families.values() for line in (*head, *samples)]
    return "\n".join([*lines, *own, ""])


def _take(families: dict[str, tuple[list[str], list[str]]], page: str, label: str) -> None:
    head, samples = families.setdefault("", ([], []))  # of a page that does not say what they are
    current, is_first = "", False
    for line in page.split("\n"):
        if line.startswith("# "):
            _, _, name, *_ = line.split(" ", 3)
            if name != current:
                current, is_first = name, name not in families
                head, samples = families.setdefault(name, ([], []))
            if is_first:
                head.append(line)
        elif line:
            samples.append(_labelled(line, label))


def _labelled(sample: str, label: str) -> str:
    """Return a sample with one more label, the first."""
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f"{name}{{{label},{rest}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{label}}} {value}"


def own_lines(brokers: Mapping[int, tuple[bool, int]]) -> list[str]:
    """Return what the command tells itself: of each broker whether it serves, and how often it was started again."""
    up, again = "barnabas_supervisor_broker_up", "barnabas_supervisor_broker_restarts_total"
    return [
        f"# HELP {up} Whether the broker serves, as the command that has started it knows.",
        f"# TYPE {up} gauge",
        *(f'{up}{{broker="{one}"}} {int(serves)}' for one, (serves, _) in brokers.items()),
        f"# HELP {again} Times that the broker ended by itself and was started again.",
        f"# TYPE {again} counter",
        *(f'{again}{{broker="{one}"}} {restarts}' for one, (_, restarts) in brokers.items()),
    ]
