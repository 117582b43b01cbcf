"""The mistakes of processes: of supervisors, of connections, of noticing which workers live."""

from __future__ import annotations

from tests.mutants.applying import Edit, Mutant

MUTANTS = (
    Mutant(
        "supervisor dies of a start",
        "a supervisor ends, and its children with it, when a process cannot be started",
        (
            Edit("worker/supervisor.py", "Exception as error:  # no memory", "StoreError as error:  #"),
            Edit("worker/supervisor.py", "except Exception as error:\n            if isinstance",
                 "except StoreError as error:\n            if isinstance"),
        ),
        ("tests/faults/test_supervision.py::test_a_supervisor_outlives_what_it_cannot_do_and_its_healthy_children_go_on",),
    ),
    Mutant(
        "lock without beat",
        "a worker without its lock is buried, whether or not it beats",
        (Edit("worker/dead_machines.py", "_Missed(held.server_run, worker.beat)", "_Missed(held.server_run, 0)"),),
        ("tests/worker/test_worker_locks.py::test_a_worker_without_its_lock_that_beats_is_left_alone",),
    ),
    Mutant(
        "failover taken for a death",
        "a lock is missed on a server that never had it",
        (Edit("store/attempts/workers.py", "return (is_same or has_restarted) and ", "return "),),
        ("tests/worker/test_worker_locks.py::test_a_lock_is_missed_only_where_it_would_be_held",),
    ),
    Mutant(
        "lost stage goes on",
        "a stage in a thread that has lost its lease reads and asks as before",
        (Edit("worker/runner.py", "lose(attempt.context)\n", "attempt.context.end()\n"),),
        ("tests/worker/test_running.py"
         "::test_a_stage_in_a_thread_that_has_lost_its_lease_stops_at_the_next_use_of_its_context",),
    ),
    Mutant(
        "lost stage keeps its thread",
        "a stage that goes on without its lease keeps a thread from the others for ever",
        (Edit("worker/runner.py", "        self.runs.look_behind(now)\n", ""),),
        ("tests/worker/test_running.py::test_a_stage_that_goes_on_without_its_lease_loses_its_thread",),
    ),
)  # fmt: skip
