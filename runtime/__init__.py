"""The four doors to the world (clock, network, disk, randomness), plus timers and tasks. Imports nothing of ours."""
