"""What operators do and ask, one subject a module. `App` brings them together."""
