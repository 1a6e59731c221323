"""Classic groups: members that join and sync, one of which assigns. Pure."""
