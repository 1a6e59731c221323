"""Messages that are stored, or passed inside others, behind their version."""
