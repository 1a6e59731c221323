"""Shared by the handlers of settings: kinds of resources, the rules for naming a broker, and the limits of a response.

Source: Kafka ConfigResource, ConfigAdminManager, ZkAdminManager.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from broker.observability.audited_request import audit
from broker.settings.stored_passwords import PasswordsRefused
from config.client_metrics import SubscriptionRefused
from config.errors import ConfigError
from config.java_values import java_integer
from metadata.store.port import ConnectionLossError, SessionExpiredError, StoreError
from protocol.errors import ErrorCode, KafkaError
from security.access import CLUSTER_NAME, Operation

if TYPE_CHECKING:
    from broker.network.request_context import Rights
    from metadata.features import FeatureLevels

logger = logging.getLogger(__name__)


# Requests for all settings multiply: 60,000 resources in a request of 1 MB would be gigabytes. All settings of 10,000 topics
# are 14 MB, and 24 with their synonyms; encoding them needs as much memory again, if they all differ.
MAX_SETTINGS_BYTES = 32 * 1024 * 1024
# Kinds of topics (those with equal settings of their own) whose rows are kept to be shared in a response.
KEPT_KINDS = 1_000


class ConfigResourceType(enum.IntEnum):
    """Types of ConfigResource; UNKNOWN stands for every other number."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
    """While the cluster has a feature level above 0; Apache Kafka 3.9 does not know it."""

    @classmethod
    def _missing_(cls, _value: object) -> ConfigResourceType:
        return cls.UNKNOWN

    @classmethod
    def of(cls, number: int, levels: FeatureLevels) -> ConfigResourceType:
        known = cls(number)
        return cls.UNKNOWN if known is cls.GROUP and not levels.any_above_zero else known


_KINDS = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


def _resource_name(row: Any) -> str:
    return f"{_KINDS.get(row.resource_type, row.resource_type)} {row.resource_name}"


def _asked(request: Any) -> Iterator[str]:
    return (f"{_resource_name(row)}: {', '.join(each.name for each in row.configs)}" for row in request.resources)


AUDIT = audit(Operation.ALTER_CONFIGS, "CONFIGS", _asked, "responses", _resource_name)
"""Of the requests that alter settings."""


def refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


class ConfigAccess:
    """Whether a client may do something to the settings of resources: those of brokers belong to the cluster."""

    __slots__ = ("_denies_in_words", "_may_on_cluster", "_may_on_group", "_may_on_topic")

    def __init__(
        self, may_on_cluster: Rights, may_on_topic: Rights, may_on_group: Rights, *, denies_in_words: bool = False
    ) -> None:
        """`denies_in_words`: errors have the general text of their code, as Apache Kafka's have in the same API."""
        self._denies_in_words = denies_in_words
        self._may_on_cluster = may_on_cluster
        self._may_on_topic = may_on_topic
        self._may_on_group = may_on_group

    def check_topic(self, name: str) -> None:
        """Raises TOPIC_AUTHORIZATION_FAILED."""
        if not self._may_on_topic(name):
            raise self._denial(self._may_on_topic, name)

    def check_group(self, name: str) -> None:
        """Raises GROUP_AUTHORIZATION_FAILED."""
        if not self._may_on_group(name):
            raise self._denial(self._may_on_group, name)

    @property
    def is_on_cluster(self) -> bool:
        return self._may_on_cluster(CLUSTER_NAME)

    def check_cluster(self, *, in_words: bool = False) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED; `in_words` as `denies_in_words`."""
        if not self.is_on_cluster:
            raise self._denial(self._may_on_cluster, CLUSTER_NAME, in_words=in_words)

    def _denial(self, rights: Rights, name: str, *, in_words: bool = False) -> KafkaError:
        return rights.denial(name, rights.denied.message if self._denies_in_words or in_words else None)


def check_names_this_broker(name: str, broker_id: int) -> None:
    """Check the broker of a change: a broker changes only its own settings. Raises KafkaError."""
    if _broker_id(name, "Node") != broker_id:
        raise refused(f"Unexpected broker id, expected {broker_id}, but received {name}")


def check_loggers_of_this_broker(name: str, broker_id: int) -> None:
    """Check the broker of a change of loggers. Raises KafkaError."""
    if _broker_id(name, "Node") != broker_id:
        raise refused(f"Unexpected node id. Expected {broker_id}, but received {name}")


def check_describes_this_broker(name: str, broker_id: int, *, or_empty: bool) -> None:
    """Check the broker of a description. Raises KafkaError."""
    if _broker_id(name, "Broker") != broker_id:
        expected = f"{broker_id} or empty string," if or_empty else f"{broker_id}"
        raise refused(f"Unexpected broker id, expected {expected} but received {name}")


def _broker_id(name: str, noun: str) -> int:
    try:
        return java_integer(name)
    except ValueError:
        raise refused(f"{noun} id must be an integer, but it is: {name}") from None


def repeated(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return resources that a request names more than once; each of them is refused."""
    return {resource for resource, count in Counter(resources).items() if count > 1}


def check_entries(names: list[str], without_value: list[str]) -> None:
    """Check the operations of a resource. Raises KafkaError for a setting that is named twice, or lacks its value."""
    if len(set(names)) < len(names):
        raise refused("Error due to duplicate config keys")
    if without_value:
        raise refused(f"Null value not supported for : {', '.join(without_value)}")


def config_refusal(error: ConfigError, resource_type: ConfigResourceType, name: str) -> KafkaError:
    """Return the error of an invalid value: INVALID_CONFIG for topics and groups, INVALID_REQUEST for brokers, as in Kafka."""
    text = error.client_text
    if isinstance(error, SubscriptionRefused):
        return refused(text)
    if resource_type in (ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS):
        return KafkaError(ErrorCode.INVALID_CONFIG, text)
    is_topic = resource_type is ConfigResourceType.TOPIC
    if isinstance(error, PasswordsRefused) or (is_topic and not _is_whole_sentence(text)):
        text = f"Invalid config value for resource ConfigResource(type={resource_type.name}, name='{name}'): {text}"
        return KafkaError(ErrorCode.INVALID_CONFIG, text)
    return KafkaError(ErrorCode.INVALID_CONFIG if is_topic else ErrorCode.INVALID_REQUEST, text)


def store_refusal(error: StoreError) -> KafkaError:
    """Return the error when the store did not respond, so that the outcome of a change is unknown, or refused it."""
    if isinstance(error, ConnectionLossError | SessionExpiredError):
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The store of the settings did not answer.")
    logger.warning("settings refused by the store: path=%s error=%s", error.path, type(error).__name__)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The store refused {error.path}: {type(error).__name__}")


def _is_whole_sentence(text: str) -> bool:
    """Return errors whose text Kafka does not extend by the resource."""
    return text.startswith(("Unknown topic config name", "conflict topic config setting"))
