"""What a store must keep, each in a file of its own."""
