"""Clients that find their way through a cluster."""
