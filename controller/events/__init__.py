"""What the controller reacts to: changes in the store, responses of brokers, and their queue."""
