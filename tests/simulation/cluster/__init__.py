"""Histories of whole clusters: several machines, one ensemble, one network, and what goes wrong between them."""
