"""The cluster, as each user reaches it: with the user's own login."""
