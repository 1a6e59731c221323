"""When problems began, as far as the brokers tell it: the page /health of brokers of this project (`barnabas.http.port`).

Where the pages are, brokers say themselves (DescribeConfigs), unless the user does.
Rules: addresses that do not answer within LIMIT_S, or have no such page of this cluster, tell nothing: at the address that a
broker names, somebody else may listen on this machine. The earliest time of all brokers counts, because each knows only what
it has seen since its own start.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from client.settings.values import SettingsError
from tools.health.checks import Finding
from tools.health.settings import HTTP_HOST, HTTP_PORT
from tools.health.view import BrokerView, Since

LIMIT_S = 1.5
MAX_PAGE_BYTES = 16 << 20
_FIELDS = {"condition", "name", "since_ms", "seen_first"}
_FIRST_SEEN = "first seen then; it may have begun earlier"
_EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104  what a broker listens on, not this command

Address = tuple[str, int]


def addresses_of(text: str) -> list[Address]:
    """Return the addresses of "host:port,host:port". Raises SettingsError."""
    found = []
    for each in text.split(","):
        host, _, port = each.strip().rpartition(":")
        if host and port.isdecimal():
            found.append((host.strip("[]"), int(port)))
        elif each.strip():
            raise SettingsError(f"barnabas.http: {each.strip()} is not of the form HOST:PORT")
    return found


def told_addresses(brokers: Iterable[BrokerView]) -> list[Address]:
    """Return the addresses that brokers name in their settings. One that listens on all of its addresses is asked where its
    clients find it; one that listens on its own machine alone can be asked from there."""
    found = []
    for broker in brokers:
        port = broker.settings.get(HTTP_PORT, "")
        if port.isdecimal() and int(port):
            host = broker.settings.get(HTTP_HOST, "")
            found.append((broker.address.rpartition(":")[0] if host in _EVERY_ADDRESS else host, int(port)))
    return list(dict.fromkeys(found))


def read_pages(addresses: Sequence[Address]) -> dict[Address, Any]:
    """Return the documents of the pages /health, of the addresses that have one."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses)) as pool:
        pages = zip(addresses, pool.map(_read, addresses), strict=True)
        return {address: page for address, page in pages if page is not None}


def began(pages: Iterable[Any]) -> dict[tuple[str, str], Since]:
    """Return since when each condition holds, by condition and name."""
    found: dict[tuple[str, str], Since] = {}
    for page in pages:
        for row in page["conditions"]:
            key = row["condition"], row["name"]
            told = Since(row["since_ms"], _note(page["broker"], seen_first=row["seen_first"]))
            known = found.get(key)
            if known is None or (told.at_ms or 0) < (known.at_ms or 0):
                found[key] = told
    return found


def with_first_seen(found: Sequence[Finding], seen: dict[tuple[str, str], int], now_ms: int) -> list[Finding]:
    """Return the findings, those of unknown starts with when this command first saw them; forget what is gone."""
    now = {(each.check, each.problem.subject) for each in found}
    for key in seen.keys() - now:
        del seen[key]
    told = []
    for each in found:
        first_ms = seen.setdefault((each.check, each.problem.subject), now_ms)
        problem = each.problem
        if problem.since.at_ms is None:
            problem = replace(problem, since=Since(first_ms, _FIRST_SEEN))
        told.append(replace(each, problem=problem))
    return told


def _note(broker: int, *, seen_first: bool) -> str:
    if seen_first:
        return f"so since broker {broker} knows it; it may have begun earlier"
    return f"seen by broker {broker}"


def _read(address: Address) -> Any:
    connection = http.client.HTTPConnection(*address, timeout=LIMIT_S)
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        if response.status != http.client.OK:
            return None
        page = json.loads(response.read(MAX_PAGE_BYTES))
        return page if _is_page(page) else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _is_page(page: Any) -> bool:
    """Whether a document is such a page: somebody else may listen at the address."""
    return (
        isinstance(page, dict)
        and isinstance(page.get("broker"), int)
        and isinstance(page.get("cluster_id"), str)
        and isinstance(page.get("conditions"), list)
        and all(
            isinstance(row, dict) and row.keys() >= _FIELDS and isinstance(row["since_ms"], int)
            for row in page["conditions"]
        )
    )
