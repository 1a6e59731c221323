"""Processes that brokers start beside themselves, each a plain client of the cluster: which settings of a broker are theirs.

    barnabas.<name>.enable     the broker's own setting, which starts the process
    barnabas.<name>.client.    behind it is the name of a client's setting, by which the process reaches the cluster
    barnabas.<name>.           any other setting of the process

Rules: pure. `name` is that of the command that the process runs, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from config.definition import SettingTable
from config.relay import RelaySettings
from config.web import WebSettings


@dataclass(frozen=True, slots=True)
class Companion:
    """`table` has the settings of the process."""

    name: str
    table: type[SettingTable]

    @property
    def prefix(self) -> str:
        return f"barnabas.{self.name}."

    @property
    def enable(self) -> str:
        return f"{self.prefix}enable"

    @property
    def client_prefix(self) -> str:
        return f"{self.prefix}client."

    def among(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return which of a broker's settings are those of the process, also the unknown ones."""
        return {
            name: text
            for name, text in given.items()
            if name in self.table.definitions or (name.startswith(self.prefix) and name != self.enable)
        }

    def own_among(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return those without the client's."""
        return {name: text for name, text in self.among(given).items() if not name.startswith(self.client_prefix)}

    def client_among(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return those of the client, by the names that they have there."""
        return {
            name.removeprefix(self.client_prefix): text
            for name, text in given.items()
            if name.startswith(self.client_prefix)
        }


RELAY = Companion("relay", RelaySettings)
WEB = Companion("web", WebSettings)
COMPANIONS = (RELAY, WEB)
