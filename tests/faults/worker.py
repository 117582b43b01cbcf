"""A worker process of the fault tests: `python -m tests.faults.worker [--processes N] [--until-idle]`.

When it ends in good order its last line is what it has done, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from dataclasses import asdict

from onceward import App
from tests.faults.faked import mend_sleep


def end_with_the_tests() -> None:
    """Nothing of a test run that was killed stays behind; what runs under us ends with us."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(app: App) -> None:
    """Work as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int)
    parser.add_argument("--until-idle", action="store_true")
    given = parser.parse_args()
    end_with_the_tests()
    summary = app.run(processes=given.processes, until_idle=given.until_idle)
    print(json.dumps(asdict(summary)), flush=True)


if __name__ == "__main__":
    mend_sleep()
    from tests.faults import work

    main(work.app)
