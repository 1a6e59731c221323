"""What must hold in every history: one file for each kind of promise. Checkers listen, and report what was broken."""
