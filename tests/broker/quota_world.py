"""Quotas for tests: without any set, or those that a test sets."""

from __future__ import annotations

from broker.network.quotas.client_quota import Windows
from broker.network.quotas.client_quotas import Quotas
from runtime.clock import Clock
from tests.doubles.clock import ManualClock

WINDOWS = Windows(window_ms=1_000, samples_max=11)
"""As by default."""


def quotas_of(clock: Clock | None = None, rates_max: int = 100, **settings: dict[str, str]) -> Quotas:
    """With the settings of entities by path, `/` as `__`: users__alice__clients__app={...}."""
    quotas = Quotas(clock or ManualClock(), WINDOWS, WINDOWS, rates_max)
    for path, given in settings.items():
        quotas.apply_entity(path.replace("__", "/"), given)
    return quotas
