"""What the command prints when all brokers serve: one table, the folders of data, and the commands to go on with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.texts import count_text


@dataclass(frozen=True, slots=True)
class Row:
    """A process of the command: its address for clients, and that of its HTTP port."""

    name: str
    address: str
    http: str | None
    process_id: int


def banner(
    release: str,
    cluster_id: str,
    rows: Sequence[Row],
    http: str | None,
    directories: Sequence[str],
    took_ms: int,
    hints: Sequence[str],
    *,
    has_login: bool = False,
    page: str | None = None,
) -> str:
    """Return the text. `release` is this program's, `hints` are lines about data that has moved; `has_login`: clients need more
    than an address. `page` is where the web process serves."""
    brokers = count_text(sum(row.name.startswith("broker ") for row in rows), "broker")
    lines = [
        f"Barnabas {release} is ready, after {took_ms / 1000:.2f} s: {brokers} of cluster {cluster_id}",
        "",
    ]
    table = [
        ("", "address", "http", "process id"),
        *((r.name, r.address, r.http or "-", str(r.process_id)) for r in rows),
    ]
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    lines += [f"  {'  '.join(map(str.ljust, row, widths)).rstrip()}" for row in table]
    lines += ["", *(f"  data      {directory}" for directory in directories)]
    if http is not None:
        lines.append(f"  http      http://{http}/metrics, of all")
    if page is not None:
        lines.append(f"  page      {page}/ui/")
    first = rows[0].address
    health = f"barnabas cluster health --bootstrap-server {first}"
    lines += [*(f"  {hint}" for hint in hints), ""]
    lines += (
        [f"  try it    {health} --command-config FILE"]
        if has_login
        else [f"  try it    kcat -b {first} -L", f"            {health}"]
    )
    return "\n".join([*lines, ""])


def bootstrap_servers(rows: Sequence[Row]) -> str:
    return ",".join(row.address for row in rows)
