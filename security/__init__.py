"""Who may do what: resources, operations, and what each request needs. Pure; below the broker, beside `metadata`."""
