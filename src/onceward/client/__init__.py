"""A database and the work that a program asks for there: roots, batches, imports, group commit."""
