"""The log directories of a broker: all of its logs, their creation, deletion, moves, retention and checkpoints."""
