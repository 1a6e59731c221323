"""The tree store over a real ZooKeeper ensemble: session, wire format, client."""
