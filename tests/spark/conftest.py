"""Installs the private names of the server's packages, whichever test of the source is collected first."""

from __future__ import annotations

import barnabas.spark  # noqa: F401
