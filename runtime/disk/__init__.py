"""Files, and the queues and threads that wait for disks: the interfaces and their real adapters."""
