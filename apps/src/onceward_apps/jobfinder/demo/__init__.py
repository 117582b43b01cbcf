"""The demo: the job finder at work on an invented web, one of two workers killed, and everything counted."""
