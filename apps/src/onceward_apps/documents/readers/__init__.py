"""One reader per format: each turns a snapshot of a file into a document of parts."""
