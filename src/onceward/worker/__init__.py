"""Running tasks: the supervisor, its children, and the one writer of each process."""
