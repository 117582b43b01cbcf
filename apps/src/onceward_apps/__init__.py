"""Applications built on Onceward, through its public API alone."""
