"""What people and programs look at: tasks, lineages, causes, alerts and worst cases, as values."""
