"""The interfaces to the operating system (clock, network, disk, randomness), timers and tasks. Imports nothing of ours."""
