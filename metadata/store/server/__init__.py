"""The store server: a committed tree served to many clients over the ZooKeeper protocol."""
