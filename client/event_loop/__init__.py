"""The client on an event loop: connections, a client of one broker, and how they are opened.

Rules: the network is injected (`runtime.network.transport`), so that it runs in the simulation; time is the loop's.
"""
