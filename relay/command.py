"""`barnabas relay`: runs a relay, and administers its rules.

Rules: a word that is none of the commands is the file of settings of `run`, and so is no word: `barnabas relay FILE` is
`barnabas relay run FILE`. A command is imported when it runs.
"""

from __future__ import annotations

import click

from runtime.command_line.group import CommandLine, Entry

_SECTION = "Commands"
TABLE = {
    "run": Entry("relay.commands.run", "bring records to their targets; this word may be left out", _SECTION),
    "rules": Entry("relay.commands.rules", "from which topics records are delivered, when, and into which", _SECTION),
}
_OF_THIS = ("-h", "--help")


class _Relay(CommandLine):
    """Its table, and `run` where no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in self.table or args[0] in _OF_THIS)
        return super().parse_args(ctx, args if is_named or ctx.resilient_parsing else ["run", *args])


command = _Relay(
    "relay", TABLE,
    help="Deliver records later, or again, by rules: `barnabas relay [PROPERTIES]` runs a relay beside any Kafka cluster.",
)  # fmt: skip
