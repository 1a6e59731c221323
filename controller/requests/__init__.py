"""What the controller sends to brokers, in which versions, over which channels, and what they respond."""
