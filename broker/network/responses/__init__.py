"""From what a handler returns to the bytes of a connection, in the order of the requests."""
