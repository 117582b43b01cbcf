"""The process that runs a system's jobs: `python -m bench.peers.worker SYSTEM [PROCESSES]`, until it is killed."""

import sys

from bench.peers.adapter import load
from bench.peers.catalogue import BY_NAME
from bench.target import from_environment


def main() -> None:
    """Hand this process over to the system's worker."""
    name, *processes = sys.argv[1:]
    load(BY_NAME[name], from_environment()).work(int(processes[0]) if processes else 1)


if __name__ == "__main__":
    main()
