"""Mistakes around a commit that cannot be written as it is: whom it holds up, and how it ends."""

from __future__ import annotations

from tests.mutants.applying import Edit, Mutant

REFUSED = "tests/faults/test_refused_writes.py"
BLOCKED = "tests/faults/test_blocked_commits.py"

MUTANTS = (
    Mutant(
        "write blames the database",
        "what a domain write raises is taken for trouble of the database wherever the engine's own error would be",
        (
            Edit(
                "store/drivers/lending.py",
                "    outcome: Exception = error\n    if is_lost:",
                "    outcome: Exception = meaning\n    if is_lost:",
            ),
        ),
        (f"{REFUSED}::test_whatever_is_raised_inside_a_write_ends_its_own_task_alone",),
    ),
    Mutant(
        "lost writes tried for ever",
        "a domain write that loses its transaction is tried again and again, and never judged",
        (Edit("worker/writer.py", "tries.count >= MOST_TRIES or (", "(False and "),),
        (f"{REFUSED}::test_a_write_that_costs_its_transaction_is_sent_alone_and_ends_its_own_task",),
    ),
    Mutant(
        "slow writes waited for",
        "a domain write may take any time, and the commits of other tasks wait for it",
        (Edit("worker/process.py", "        limit_writes(config)\n", ""),),
        (f"{REFUSED}::test_a_slow_write_ends_by_its_own_time_limit_while_others_go_on",),
    ),
    Mutant(
        "refused three times",
        "a task whose end was refused three times is forgotten, and its lease is renewed for ever",
        (
            Edit(
                "worker/runner.py",
                "        asyncio.get_running_loop().call_later(pause_s, self._conclude, attempt, "
                "unwritable, NO_EFFECTS)\n",
                "        self._forget(attempt)\n",
            ),
        ),
        ("tests/worker/test_effects.py::test_a_task_whose_end_is_refused_again_and_again_ends_once_it_can",),
    ),
    Mutant(
        "sums without a bound",
        "a budget that is charged more than fits into a number turns into a float, or is refused",
        (
            Edit(
                "store/sql/governance.sqlite.sql",
                "min(spent + c.column5, 5000000000000000000)",
                "spent + c.column5",
                "change_budgets",
            ),
            Edit(
                "store/sql/governance.postgres.sql",
                "least(b.spent + c.spent, 5000000000000000000)",
                "b.spent + c.spent",
                "change_budgets",
            ),
        ),
        ("tests/worker/test_budgets.py::test_charges_of_many_tasks_that_fit_into_no_number_end_them_all_the_same",),
    ),
    Mutant(
        "rows before their commit",
        "the rows of a statement are taken for its success, although the commit that ends it has failed",
        (Edit("store/drivers/wire.py", "answer = answer if later.status in _FINE else later", "pass"),),
        ("tests/store/test_wire.py::test_rows_of_a_statement_whose_commit_fails_are_no_answer",),
    ),
    Mutant(
        "stages pay for notifications",
        "a commit that cannot notify anybody is refused, and its stage is judged by that",
        (Edit("store/drivers/postgres.py", "if error.sqlstate == _TOO_MUCH and not self._quiet_until:", "if False:"),),
        ("tests/faults/test_full_notifications.py::test_while_no_worker_can_be_notified_work_goes_on_by_looking",),
    ),
    Mutant(
        "trips end nothing",
        "an attempt with which the engine itself fails is never ended",
        (
            Edit(
                "worker/runner.py",
                "        except Exception as error:\n            self._tripped(attempt, error)\n",
                "        except Exception:\n",
            ),
        ),
        ("tests/worker/test_trips.py::test_what_trips_around_a_stage_ends_its_own_task",),
    ),
    Mutant(
        "full disk of one is that of all",
        "a commit whose domain rows fill the disk is taken for a disk that is full for others, too",
        (Edit("worker/writer.py", "(is_lost or needs_much)", "is_lost"),),
        (f"{REFUSED}::test_a_write_that_is_alone_in_its_transaction_holds_up_nothing_that_comes_later",),
    ),
    Mutant(
        "full disk waited for",
        "a commit whose domain rows fill the disk again and again is never judged",
        (Edit("worker/writer.py", "return now - tries.full_since >= FULL_FOR_MS", "return False"),),
        (f"{REFUSED}::test_a_write_that_fills_a_disk_that_is_not_full_ends_its_own_task",),
    ),
    Mutant(
        "locks waited for",
        "a worker waits for the lock of another transaction for as long as that is held, with all its commits",
        (Edit("store/drivers/postgres.py", "if self.lock_limit_s is not None:", "if False:"),),
        (f"{BLOCKED}::test_a_commit_that_another_transaction_blocks_holds_up_no_other",),
    ),
    Mutant(
        "groups tried for ever",
        "a group of commits of which one costs the transaction each time is tried as it is for ever",
        (
            Edit(
                "worker/committer.py",
                "if batch.items and self._separate is not None and takes_a_write(self._writer.session):",
                "if False:",
            ),
        ),
        (f"{BLOCKED}::test_a_commit_that_costs_its_transaction_each_time_ends_its_own_task",),
    ),
    Mutant(
        "losses never judged",
        "a commit that costs its transaction each time is tried alone for ever",
        (Edit("worker/writer.py", "if tries.losses >= MOST_LOSSES:", "if False:"),),
        (f"{BLOCKED}::test_a_commit_that_costs_its_transaction_each_time_ends_its_own_task",),
    ),
    Mutant(
        "no second writer",
        "a domain write that has to be sent alone is waited for by all commits that come after it",
        (Edit("worker/process.py", "Committer(writer, wakeup, loop, apart)", "Committer(writer, wakeup, loop)"),),
        (f"{REFUSED}::test_a_slow_write_ends_by_its_own_time_limit_while_others_go_on",),
    ),
    Mutant(
        "trips after a commit end nothing",
        "an attempt that the engine cannot go on with after its commit keeps its lease for ever",
        (
            Edit(
                "worker/runner.py",
                "                self._tripped_after(item.commit, error)\n",
                "                pass\n",
            ),
        ),
        ("tests/worker/test_trips.py::test_what_trips_around_a_stage_ends_its_own_task",),
    ),
)
