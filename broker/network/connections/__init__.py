"""Connections of clients: accepted, limited, alive, closed."""
