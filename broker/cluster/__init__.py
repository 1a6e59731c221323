"""This broker as a member of its cluster: registration, the controller's requests, internal topics, start and stop."""
