"""What a broker knows of its cluster: an immutable image, the tree store that coordinates it, and its administration."""
