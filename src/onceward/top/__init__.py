"""`onceward top`: a live view of a database in a terminal. It needs the extra `tui`."""
