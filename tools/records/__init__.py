"""Records as commands read, choose, print and send them."""
