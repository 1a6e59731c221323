"""What a process tells Prometheus and health checks: metrics, their text form, and the HTTP port for it."""
