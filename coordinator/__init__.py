"""Coordinators: state machines on the partitions of internal topics (`group`), and the runtime that loads and serves them."""
