"""The store server as a process: `barnabas store`."""
