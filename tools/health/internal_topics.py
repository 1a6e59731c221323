"""The check of internal topics that do not exist because too few brokers run. Pure.

Brokers create each when a client first needs it, with as many replicas as a setting says, and not at all while there are fewer
brokers. Nobody tells the client: its group reads nothing, its transaction does not begin.
Source: KIP-115.
"""

from __future__ import annotations

from collections.abc import Iterator

from runtime.texts import count_text
from tools.health.settings import DISK_FLOOR, INTERNAL_REPLICAS, STORE
from tools.health.view import BrokerView, ClusterView, Problem, Severity

SHARE_TOPIC = "__share_group_state"
_WAITING = {
    "__consumer_offsets": (Severity.ERROR, "consumers with a group read nothing"),
    "__transaction_state": (Severity.NOTICE, "transactional producers wait"),
    SHARE_TOPIC: (Severity.ERROR, "members of share groups read nothing"),
}
"""Nearly every cluster has groups; many have no transactions. Of share groups it is asked only where there is one."""


def internal_topics_missing(view: ClusterView) -> Iterator[Problem]:
    """Those that cannot be created while so few brokers run; whoever needs them waits without a word."""
    has_share_groups = any(group.is_share for group in view.groups)
    for topic, setting in INTERNAL_REPLICAS.items():
        if topic == SHARE_TOPIC and not has_share_groups:
            continue
        texts = [each.settings.get(setting, "") for each in view.brokers.values() if not _stands_alone(each)]
        wanted, there = max((int(text) for text in texts if text.isdecimal()), default=0), len(view.brokers)
        if topic in view.absent and wanted > there:
            severity, who_waits = _WAITING[topic]
            yield Problem(
                severity, f"topic {topic}",
                f"it does not exist, and with {setting}={wanted} and {count_text(there, 'broker')} nobody can create it: "
                f"{who_waits}",
                f"start brokers until {wanted} run; or set {setting}={there} on all brokers and restart them",
            )  # fmt: skip


def _stands_alone(broker: BrokerView) -> bool:
    """Whether it is a broker of this project without ZooKeeper, which creates these topics with one replica."""
    return DISK_FLOOR in broker.settings and not broker.settings.get(STORE)
