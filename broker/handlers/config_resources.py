"""What the three handlers of settings share: kinds of resources, and the rules for naming a broker.

Source: Kafka ConfigResource, ConfigAdminManager, ZkAdminManager.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

from broker.dynamic_settings import PasswordsRefused
from config.errors import ConfigError
from protocol.errors import ErrorCode, KafkaError


class ResourceType(enum.IntEnum):
    """Types of ConfigResource; UNKNOWN stands for every other number."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16

    @classmethod
    def _missing_(cls, _value: object) -> ResourceType:
        return cls.UNKNOWN


def refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_names_this_broker(name: str, broker_id: int) -> None:
    """For changes: settings of a broker go to that broker. Raises KafkaError."""
    if _broker_id(name, "Node") != broker_id:
        raise refused(f"Unexpected broker id, expected {broker_id}, but received {name}")


def check_describes_this_broker(name: str, broker_id: int, *, or_empty: bool) -> None:
    """For reading. Raises KafkaError."""
    if _broker_id(name, "Broker") != broker_id:
        expected = f"{broker_id} or empty string," if or_empty else f"{broker_id}"
        raise refused(f"Unexpected broker id, expected {expected} but received {name}")


def _broker_id(name: str, noun: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise refused(f"{noun} id must be an integer, but it is: {name}") from None


def repeated(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Resources that a request names more than once; each of them is refused."""
    return {resource for resource, count in Counter(resources).items() if count > 1}


def check_entries(names: list[str], without_value: list[str]) -> None:
    """Raises KafkaError for a setting that is named twice, and for one without the value that its operation needs."""
    if len(set(names)) < len(names):
        raise refused("Error due to duplicate config keys")
    if without_value:
        raise refused(f"Null value not supported for : {', '.join(without_value)}")


def config_refusal(error: ConfigError, resource_type: ResourceType, name: str) -> KafkaError:
    """The answer to a value that cannot be. Topics answer INVALID_CONFIG, brokers INVALID_REQUEST, as Kafka does."""
    text = str(error)
    is_topic = resource_type is ResourceType.TOPIC
    if isinstance(error, PasswordsRefused) or (is_topic and not _is_whole_sentence(text)):
        text = f"Invalid config value for resource ConfigResource(type={resource_type.name}, name='{name}'): {text}"
        return KafkaError(ErrorCode.INVALID_CONFIG, text)
    return KafkaError(ErrorCode.INVALID_CONFIG if is_topic else ErrorCode.INVALID_REQUEST, text)


def _is_whole_sentence(text: str) -> bool:
    """Refusals that Kafka answers as they are, without naming the resource."""
    return text.startswith(("Unknown topic config name", "conflict topic config setting"))
