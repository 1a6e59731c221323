"""Topics from log files, without a broker."""
