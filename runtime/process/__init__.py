"""What this process asks of the operating system: limits, memory, threads, its service manager."""
