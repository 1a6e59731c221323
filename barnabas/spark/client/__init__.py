"""The client of a cluster: options and settings, connections and how they are secured, topics, offsets, coordinators.

Rules: blocking, as executors run plain Python; below the other packages of the source, and imports none of them.
"""
