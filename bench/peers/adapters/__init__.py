"""One module a system: how it is set up, fed and run. Each imports its own library, in its own environment."""
