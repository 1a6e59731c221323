"""Connections: the interface, the sockets behind it, and what is sent from files."""
