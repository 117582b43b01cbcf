"""Onceward beside other task queues: the same work, the same machine, the same minutes.

Every system runs as its own documentation says is fast and still durable (`catalogue.py` has one line on each), in an
environment of its own, driven by one adapter. Run it with `python -m bench.peers`; `bench/README.md` says how it
measures.
"""
