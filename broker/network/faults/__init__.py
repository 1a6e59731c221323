"""Faults that a test asks for. Only a broker that was started with `--faults-fd` loads this."""
