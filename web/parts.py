"""The parts of a web process: what its endpoints share. Each room adds its own; `web.application` joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from config.web import WebSettings
    from web.access.access import Access
    from web.balancing.balances import Balances
    from web.checking.checkups import Checkups
    from web.cluster.users import UserClusters
    from web.history.room import HistoryRoom
    from web.messages.parts import MessageParts
    from web.rest_v2.instances import ConsumerInstances
    from web.rest_v3.records.large import LargeRecords
    from web.schemas.registry import SchemaRegistry
    from web.surroundings import Surroundings


@dataclass(slots=True)
class WebParts:
    """`base_uri` is where this process is reached, without a slash at its end. `client` are the settings of the process,
    with the login that it has been given, if any. `schemas` is None where no schema registry is named. `access`
    knows who asks. `balances` has the balance that runs, and `checkups` check the cluster's health."""

    settings: WebSettings
    client: ClientSettings
    surroundings: Surroundings
    users: UserClusters
    base_uri: str
    schemas: SchemaRegistry | None
    access: Access
    messages: MessageParts
    consumers: ConsumerInstances
    history: HistoryRoom
    balances: Balances
    checkups: Checkups
    large_records: LargeRecords
