"""The members."""
