"""Clients of the relay: who produces what is to come later, who fails at what came, who changes rules."""
