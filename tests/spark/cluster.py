"""The cluster of scripted brokers, of messages as the source has them: under their private names."""

from __future__ import annotations

from typing import Any

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.settings import SparkClientSettings
from tests.client.blocking import scripted_cluster


class Cluster(scripted_cluster.Cluster):
    prefix = "barnabas._private."

    def settings(self, **settings: Any) -> SparkClientSettings:
        """What belongs to a client of this cluster."""
        return SparkClientSettings(self.client().settings, **settings)
