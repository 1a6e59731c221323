"""The parser of the server's commands, which names the command or option that may be meant by one that there is not.

Rules: every start of a broker imports this module, so that what only an error needs is imported then.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class SuggestingParser(argparse.ArgumentParser):
    """Parsers of commands below it are of the same kind."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            from runtime.suggestions import did_you_mean  # noqa: PLC0415

            parser, name = self._parser_of(options), unknown[0].partition("=")[0]
            names = [name for action in parser._actions for name in action.option_strings]  # noqa: SLF001
            parser.error(f"unknown argument {name}{did_you_mean(name, names) if name.startswith('-') else ''}")
        return options

    def _parser_of(self, options: argparse.Namespace) -> SuggestingParser:
        """Return the parser of the command that was given."""
        parser = self
        while (commands := parser._commands()) is not None:
            chosen = commands.choices.get(getattr(options, commands.dest, None))
            if not isinstance(chosen, SuggestingParser):
                break
            parser = chosen
        return parser

    def _commands(self) -> Any:
        """Return the action that has the commands below this one; None where there are none."""
        return next((each for each in self._actions if isinstance(each, argparse._SubParsersAction)), None)  # noqa: SLF001

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raises argparse.ArgumentError."""
        if action is self._commands() and value not in action.choices:
            from runtime.suggestions import did_you_mean  # noqa: PLC0415

            hint = did_you_mean(value, action.choices)
            if hint:
                raise argparse.ArgumentError(None, f"unknown command {value}{hint}")
        super()._check_value(action, value)
