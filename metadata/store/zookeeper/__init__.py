"""The store over a ZooKeeper ensemble: session, wire format, client."""
