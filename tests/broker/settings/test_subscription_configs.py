"""Subscriptions of client metrics in the store: what another broker, or nobody that is known, has written there."""

from __future__ import annotations

import logging

import pytest

from broker.settings.subscription_configs import StoredSubscriptions
from broker.telemetry.subscriptions import Subscriptions
from metadata.store import znodes
from metadata.store.configs import write_entity_config
from runtime.tasks import TaskScope
from tests.async_tests import simulated
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop
from tests.simulation.store import SimulatedEnsemble

KIND = "client-metrics"


@simulated(1)
async def test_what_is_not_valid_is_logged_and_no_subscription(loop: SimLoop, caplog: pytest.LogCaptureFixture) -> None:
    ensemble = SimulatedEnsemble(SimClock(loop), lambda: 0.001)
    store, tasks, subscriptions = ensemble.connect(), TaskScope("test"), Subscriptions()
    await write_entity_config(store, KIND, "good", {"metrics": "a."})
    await write_entity_config(store, KIND, "bad", {"match": "nobody=1"})
    await write_entity_config(store, KIND, "empty", {})
    await store.create(znodes.config_path(KIND, "broken"), b"no json")
    told: list[bool] = []
    stored = StoredSubscriptions(store, tasks, subscriptions, told.append)
    assert told == [False]
    with caplog.at_level(logging.WARNING):
        await stored.start()
    assert stored.stored == {"good": {"metrics": "a."}}
    assert len(subscriptions) == 1 and told[-1] is True
    lines = [record.getMessage() for record in caplog.records]
    assert "stored setting ignored: subscription=bad error=Illegal client matching pattern: nobody=1" in lines
    assert any(line.startswith("settings node ignored: path=/config/client-metrics/broken") for line in lines)

    version = subscriptions.version
    await stored.alter("new", lambda _: {"metrics": "b."}, validate_only=True)
    assert (len(subscriptions), subscriptions.version) == (1, version)
    await stored.alter("new", lambda _: {"metrics": "b."}, validate_only=False)
    await stored.alter("good", lambda _: {}, validate_only=False)
    assert list(stored.stored) == ["new"] and len(subscriptions) == 1
    await stored.alter("new", lambda _: {}, validate_only=False)
    assert told[-1] is False
    await tasks.close()
