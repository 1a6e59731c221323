"""The commands of the relay, each a module."""
