"""Access control lists: what they are, which apply to a resource, and the authorizer that decides by them."""
