"""The relay: brings records to their targets when they are due, tries them again, puts aside what cannot be processed. A plain
client of any Kafka cluster.

Rules: it stands beside `web`, above `client` and `tools`, and knows no broker. What decides is pure; `relay.relaying` and the
process are the shells.
"""
