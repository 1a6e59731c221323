"""`barnabas start --brokers N`: one process that starts a store server and brokers on this machine, and looks after them."""
