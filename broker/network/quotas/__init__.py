"""How much clients may use: bytes, time, changes, connections."""
