"""The commands of the server process that are no broker: `settings`, `dump-log`, `log find`."""
