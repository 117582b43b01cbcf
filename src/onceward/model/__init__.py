"""The rules of the engine as plain functions over frozen values. Nothing here reads a clock, a file or a database."""
