"""Tools that know nothing of tasks: the log, redaction, HTTP, imports at first use."""
