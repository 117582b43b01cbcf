"""A worker process of the fault tests: `python -m tests.faults.worker [--processes N] [--until-idle]`.

When it ends in good order its last line is what it has done, as JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from tests.faults.work import app

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int)
    parser.add_argument("--until-idle", action="store_true")
    parser.add_argument("--name")
    given = parser.parse_args()
    summary = app.run(processes=given.processes, until_idle=given.until_idle, name=given.name)
    print(json.dumps(asdict(summary)), flush=True)
