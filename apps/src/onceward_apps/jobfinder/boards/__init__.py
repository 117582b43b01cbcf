"""Job boards: one module for each kind, all read the same way."""
