"""What must hold in a cluster whatever happens. Each file knows one kind of promise."""
