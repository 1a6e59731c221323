"""Which internal topics the controller creates before they are needed (`barnabas.internal.topics.create.enable`). Pure.

Rules: a topic that is missing is created as soon as there are brokers for all its replicas; brokers that are shutting down do
not count. A topic that is being deleted is not missing yet. That of share groups is only created in a cluster that has them:
its broker leaves it out elsewhere.
Source: ours. Apache Kafka creates such a topic when a client first asks for a coordinator, and needs as many brokers as the
topic has replicas: a client that first asks while one of three brokers is down gets none until that broker is back.
"""

from __future__ import annotations

from config.broker import BrokerSettings
from controller.controller_context import ControllerContext
from metadata.admin.internal_topics import REPLICATION_SETTINGS, internal_topic


def topics_to_create(context: ControllerContext, settings: BrokerSettings) -> list[str]:
    """Return the internal topics that should be created now."""
    if not settings.barnabas_internal_topics_create_enable:
        return []
    brokers_count = sum(context.is_live(broker_id) for broker_id in context.live_brokers)
    return [
        name
        for name in REPLICATION_SETTINGS
        if name not in context.topics and internal_topic(name, settings).replication_factor <= brokers_count
    ]
