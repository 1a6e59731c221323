"""The banner that a started broker prints: its version, ids, listeners, directories, and a command to try it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.network.listening.listeners import ListenerPlan
from runtime.network.transport import Address, is_every_interface


@dataclass(frozen=True, slots=True)
class BannerFacts:
    version: str
    cluster_id: str
    broker_id: int
    plans: Sequence[ListenerPlan]
    bound: Mapping[str, Address]
    log_directories: Sequence[str]
    http: Address | None
    took_ms: int


def banner(facts: BannerFacts) -> str:
    rows = [("cluster", facts.cluster_id), ("broker", str(facts.broker_id))]
    for plan in facts.plans:
        bound = facts.bound[plan.name]
        rows.append(("listener", f"{plan.name} on {_shown(bound)}, {_advertised(plan, bound)}"))
    rows += [("data", directory) for directory in facts.log_directories]
    if facts.http is not None:
        rows.append(("http", f"http://{_shown(facts.http)}/metrics"))
    lines = [f"Barnabas {facts.version} is ready, after {facts.took_ms / 1000:.2f} s", ""]
    lines += [f"  {name:<9} {text}" for name, text in rows]
    lines += ["", f"  try it    kcat -b {bootstrap_server(facts.plans[0], facts.bound)} -L", ""]
    return "\n".join(lines)


def bootstrap_server(plan: ListenerPlan, bound: Mapping[str, Address]) -> str:
    """`host:port` under which a client on this machine reaches a listener."""
    host = "localhost" if is_every_interface(plan.bind.host) else plan.bind.host
    return _shown(Address(host, bound[plan.name].port))


def _advertised(plan: ListenerPlan, bound: Address) -> str:
    if plan.advertised is None:
        return "advertised as the address that a client used"
    return f"advertised as {_shown(Address(plan.advertised.host, plan.advertised.port or bound.port))}"


def _shown(address: Address) -> str:
    return str(Address(address.host or "*", address.port))
