"""Interfaces to the operating system (clock, network, disk, randomness), timers and tasks. Imports no package of Barnabas."""
