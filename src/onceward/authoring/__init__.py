"""What a program declares, and what its stages see while they run: pipelines, stages, contexts, calls."""
