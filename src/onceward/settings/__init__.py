"""The numbers of the engine: where they come from, what they may be together, and what is in force now."""
