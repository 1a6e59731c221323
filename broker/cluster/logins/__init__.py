"""How this broker logs in to others, and the delegation tokens of the cluster."""
