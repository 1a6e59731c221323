"""Files of client settings, as options of the source."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.spark.client.client_options import PREFIX, has_effect
from client.settings.files import read_properties_file


def options_of(path: str) -> dict[str, str]:
    """Return the properties of a file of Kafka's tools, with the source's prefix. Raises ValueError."""
    return {PREFIX + name: text for name, text in read_properties_file(path).items()}


def with_effect(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that such a file may have for other clients."""
    return {name: text for name, text in options.items() if has_effect(name)}
