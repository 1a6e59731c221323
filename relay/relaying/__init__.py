"""How records are taken in and brought to their targets: decisions and plans are pure, the rest is a client on a loop."""
