"""What may be meant by the name of a setting that there is not.

Rules: brokers decide which names there are, and newer ones may know more. Where a broker refuses a name, the nearest one that
is known here is told behind its reason. Where it takes any name, as it does for the dynamic settings of brokers and for
settings that are removed, it is told that the name is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from tools.failures import told

if TYPE_CHECKING:
    from config.definition import Setting


def unknown_names(kind: str, names: Iterable[str]) -> list[str]:
    """Return what is to be told of names that no setting of this kind has, such as "topics" or "brokers"."""
    known, base, hint = _known(kind)
    return [f"{name} is no known setting of {kind}{hint(name)}" for name in names if base(name) not in known]


def told_of_settings(error: KafkaError, kind: str, names: Iterable[str]) -> str:
    """Return the text of an error, with the name that may be meant by the one that it names. A broker of this project has told
    it by itself."""
    text = told(error)
    if error.code is not ErrorCode.INVALID_CONFIG:
        return text
    known, base, hint = _known(kind)
    hints = (hint(name) for name in names if name in text and base(name) not in known)
    return text + next((found for found in hints if found not in text), "")


def _known(kind: str) -> tuple[Mapping[str, Setting], Callable[[str], str], Callable[[str], str]]:
    """Return the settings by name, what turns a name into that of its setting, and what says which name may be meant."""
    if kind == "topics":
        from config.topic import LogConfig, topic_setting_hint  # noqa: PLC0415  few commands need it

        return LogConfig.definitions, str, topic_setting_hint
    if kind == "client-metrics":
        from config.client_metrics import SubscriptionSettings  # noqa: PLC0415

        return SubscriptionSettings.definitions, str, lambda _: ""
    if kind == "groups":
        from config.group import OwnGroupSettings  # noqa: PLC0415

        return OwnGroupSettings.definitions, str, lambda _: ""
    from config.broker import BrokerSettings, base_name  # noqa: PLC0415
    from config.unknown_settings import broker_setting_hint  # noqa: PLC0415

    return BrokerSettings.definitions, base_name, broker_setting_hint
