"""The commands that do not start a broker: `settings`, `dump-log`, `log find`."""
