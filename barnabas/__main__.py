"""`python -m barnabas`: the same as the command `barnabas`."""

from __future__ import annotations

from barnabas.cli import main

main()
