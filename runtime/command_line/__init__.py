"""What all commands of `barnabas` share: the tree of commands, how they end, output, progress, errors, values of options.

Whatever speaks to people on a command line stands on it: the server's commands, those for any cluster, and Spark jobs.
"""
