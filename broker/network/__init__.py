"""The connections of a broker: bytes in, requests through one gate to their handlers, responses out in order."""
