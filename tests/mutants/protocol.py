"""The mistakes: one for each way in which queues of this kind have been seen to lose, repeat or overrun."""

from __future__ import annotations

from tests.mutants.applying import Edit, Mutant

TASKS, SQLITE, POSTGRES = "store/sql/tasks.sql", "store/sql/sqlite.sql", "store/sql/postgres.sql"
COMMITS = "store/commits.py"


def _when_refused(also: str) -> tuple[Edit, Edit]:
    """Something is done of a commit that the fence has refused: of one in a group, and of one by itself."""
    loss = "_record_loss(lease, move, batch)\n"
    in_group, alone = 12 * " ", 8 * " "
    return (
        Edit(
            COMMITS, f"{in_group}{loss}{in_group}continue\n", f"{in_group}{loss}{in_group}{also}\n{in_group}continue\n"
        ),
        Edit(COMMITS, f"{alone}{loss}{alone}return False\n", f"{alone}{loss}{alone}{also}\n{alone}return False\n"),
    )


def _on_both(query: str, in_sqlite: str, in_postgres: str, new: str = "") -> tuple[Edit, Edit]:
    """The same mistake in the two spellings of a query."""
    return Edit(SQLITE, in_sqlite, new, query), Edit(POSTGRES, in_postgres, new, query)


MUTANTS = (
    Mutant(
        "epoch dropped",
        "a group of commits does not name the fence",
        (
            *_on_both("finish_group", "  AND fence = :fence\n", "      AND fence = :fence\n"),
            *_on_both("advance_group", "  AND fence = :fence\n", "      AND fence = :fence\n"),
        ),
        ("tests/worker/test_fence.py::test_a_new_claim_of_ours_lets_nothing_of_an_old_one_through",),
    ),
    Mutant(
        "token dropped",
        "a group of commits names the fence, and no token",
        (
            *_on_both("finish_group", "  AND instr(:tokens, token)\n", "      AND token = ANY (:tokens::bytea[])\n"),
            *_on_both("advance_group", "  AND instr(:tokens, token)\n", "      AND token = ANY (:tokens::bytea[])\n"),
        ),
        ("tests/worker/test_fence.py::test_the_same_fence_without_the_token_is_no_lease",),
    ),
    Mutant(
        "heartbeat unfenced",
        "a worker that was declared dead renews its leases",
        (Edit("store/sql/workers.sql", "  AND stopped_at IS NULL\n", "", "renew"),),
        ("tests/worker/test_leases.py::test_a_worker_that_was_declared_dead_is_told_and_can_neither_renew_nor_claim",),
    ),
    Mutant(
        "expiry by a clock",
        "a worker is dead when a clock says so, whether or not its beat stands still",
        (
            Edit(
                "worker/housekeeping.py",
                " and stood_still_ms >= min(self._config.check_ms, worker.lease_ms)",
                "",
            ),
        ),
        ("tests/worker/test_leases.py::test_whoever_has_just_begun_must_look_twice",),
    ),
    Mutant(
        "dedupe without index",
        "whoever asks last has an identity, as if no unique key had kept it",
        (
            Edit(SQLITE, "DO NOTHING", "DO UPDATE SET task = excluded.task", "take_free_identities"),
            Edit(POSTGRES, "DO UPDATE SET task = onceward_identity.task", "DO UPDATE SET task = excluded.task",
                 "take_free_identities"),
        ),
        ("tests/worker/test_spawning.py::test_a_child_asked_for_again_is_the_same_child",),
    ),
    Mutant(
        "budget check-then-act",
        "what is left of a budget is read without locking its row",
        (
            Edit(POSTGRES, "\nFOR UPDATE", "", "hold_budgets"),
            Edit(POSTGRES, "\nFOR UPDATE OF b", "", "hold_all_budgets"),
        ),
        ("tests/faults/test_budgets.py::test_claims_that_race_set_aside_no_more_than_there_is",),
    ),
    Mutant(
        "slot released by counter",
        "who has lost its lease leaves the gates in the name of its successor",
        _when_refused("batch.leave(one, move)"),
        ("tests/store/test_gates_by_hand.py::test_who_has_lost_its_lease_gives_up_no_place_of_its_successor",),
    ),
    Mutant(
        "child insert outside the transaction",
        "children come to be whether or not the stage that asked for them has committed",
        _when_refused("batch.accept_spawns(one)"),
        ("tests/worker/test_fence.py::test_nobody_spawns_under_a_lost_lease",),
    ),
    Mutant(
        "stage ledger not unique",
        "what a stage has stored is stored once more by the next attempt",
        (
            Edit("store/sql/migrations/0001_engine.sqlite.sql",
                 "    at integer NOT NULL,\n    PRIMARY KEY (task, run, stage, part)\n) WITHOUT ROWID;",
                 "    at integer NOT NULL\n);"),
            Edit("store/sql/migrations/0001_engine.postgres.sql",
                 "    at bigint NOT NULL,\n    PRIMARY KEY (task, run, stage, part)\n);", "    at bigint NOT NULL\n);"),
            Edit(TASKS,
                 "\nON CONFLICT (task, run, stage, part)\n"
                 "DO UPDATE SET value = excluded.value, value_blob = excluded.value_blob, at = excluded.at",
                 "", "insert_checkpoints"),
        ),
        ("tests/worker/test_parts.py::test_of_a_stage_one_result_and_one_cursor_are_stored_however_often_it_runs",),
    ),
    Mutant(
        "commit error treated as failure",
        "a commit whose reply was lost is run again",
        (Edit("store/session.py", "if attempt.is_sent and self._settled(attempt, patience):", "if False:"),),
        ("tests/faults/test_lost_replies.py::test_a_commit_without_a_reply_is_looked_up_and_never_repeated",),
    ),
    Mutant(
        "attempt counted at failure",
        "a stage that kills its worker is never heard of, so nothing is counted",
        (Edit(TASKS, "crashes = crashes + 1, ", "", "record_crash"),),
        ("tests/worker/test_suspects.py::test_suspects_run_in_halves_then_alone_and_the_culprit_is_quarantined",),
    ),
    Mutant(
        "unconditional cancel",
        "what has ended is cancelled",
        (Edit(TASKS, "  AND status IN (0, 1, 2, 3)\n", "", "cancel"),),
        ("tests/worker/test_operating.py::test_what_has_ended_cannot_be_cancelled",),
    ),
    Mutant(
        "unconditional batch decrement",
        "a batch that has ended goes on counting",
        _on_both("count_batches", "\n  AND status = 0", "\n  AND b.status = 0"),
        ("tests/worker/test_batches.py::test_a_task_that_is_opened_again_after_the_end_changes_nothing",),
    ),
    Mutant(
        "tick without unique",
        "a schedule moves on whatever time it stands at",
        (Edit("store/sql/schedules.sql", "  AND next_at = :seen\n", "", "advance_schedule"),),
        ("tests/worker/test_schedules.py::test_of_many_who_see_the_same_time_due_one_fires_it",),
    ),
    Mutant(
        "prune of live dedupe key",
        "with the first task of a lineage that is pruned its identities are forgotten",
        (Edit("store/pruning.py", "{as_uuid(row[2]) for row in gone} - left", "{as_uuid(row[2]) for row in gone}"),),
        (
            "tests/worker/test_spawning.py::test_what_the_guard_must_know_is_kept_as_long_as_anything_of_the_lineage_is_there",
        ),
    ),
    Mutant(
        "random ids",
        "what must be the same for every attempt is drawn anew",
        (
            Edit("context.py", 'text = f"{lease.lineage}/{lease.task}/{lease.run}/{self._stage.name}"',
                 'text = f"{lease.lineage}/{lease.task}/{lease.fence}/{self._stage.name}"'),
        ),
        ("tests/worker/test_parts.py::test_the_idempotency_key_changes_with_task_stage_and_fresh_run_only",),
    ),
    Mutant(
        "terminal overwritten",
        "a late success overwrites a cancel",
        (
            Edit(TASKS, "ended_at = :now, token = NULL, ", "ended_at = :now, ", "cancel"),
            *_on_both("finish_group", "\n  AND status = 1", "\n      AND status = 1"),
        ),
        ("tests/worker/test_operating.py::test_nothing_of_a_running_task_commits_after_cancel_has_answered",),
    ),
    Mutant(
        "sleep in retry",
        "the worker sleeps until it is time to try again",
        (
            Edit("model/decide.py", "    return TryAgain(stage, now + delay_ms, ",
                 "    __import__('time').sleep(delay_ms / 1_000)\n    return TryAgain(stage, now, "),
        ),
        ("tests/unit/test_decide.py",),
    ),
    Mutant(
        "lineage id regenerated on read",
        "a task without a lineage that anybody remembers gets a new one whenever it is read",
        (Edit("model/task.py", "return uuid.UUID(bytes=self.lineage_bytes)", "return uuid.uuid4()"),),
        ("tests/worker/test_spawning.py::test_children_come_to_be_with_their_stage_and_know_where_they_come_from",),
    ),
    Mutant(
        "depth limit not inherited",
        "the limits of a branch hold for its first task alone",
        (Edit("store/children.py", "parent.limits if child.bounds is None else", "None if child.bounds is None else"),),
        ("tests/worker/test_spawning.py::test_the_depth_and_width_of_a_branch_hold_for_all_that_come_from_it",),
    ),
    Mutant(
        "half-open lets many through",
        "when the pause of a breaker is over everybody returns",
        (Edit("model/source.py", "if state.is_probing(now) and ", "if False and "),),
        ("tests/unit/test_source.py::test_five_failures_in_a_row_open_the_breaker_and_one_probe_decides",),
    ),
    Mutant(
        "no heartbeat, never reclaimed",
        "a worker that died before its first beat is never missed",
        (
            Edit("worker/housekeeping.py", "        introduced = worker.pid != 0\n",
                 "        if worker.beat == 0:\n            return None\n        introduced = worker.pid != 0\n"),
        ),
        (
            "tests/worker/test_leases.py::test_a_dead_worker_is_reclaimed_after_its_lease_and_one_check_but_not_before",
        ),
    ),
    Mutant(
        "claim from a replica",
        "what stood in line when somebody looked is leased, whatever has become of it since",
        _on_both("lease_tasks", "  AND status IN (0, 2)\n", "      AND t.status IN (0, 2)\n"),
        ("tests/worker/test_operating.py::test_a_pending_task_is_cancelled_and_never_runs",),
    ),
    Mutant(
        "synchronous off",
        "a commit does not wait for the disk",
        (
            Edit("store/sqlite.py", "PRAGMA synchronous = full", "PRAGMA synchronous = off"),
            Edit("store/postgres.py", "SET jit = off", "SET jit = off; SET synchronous_commit = off"),
        ),
        ("tests/store/test_durability.py",),
    ),
    Mutant(
        "mmap on",
        "the file is mapped into memory, where a stray write or a truncation reaches it",
        (
            Edit("store/sqlite.py", 'connection.execute("PRAGMA synchronous = full")',
                 'connection.execute("PRAGMA synchronous = full; PRAGMA mmap_size = 268435456")'),
        ),
        ("tests/store/test_durability.py",),
    ),
    Mutant(
        "past not insisted on",
        "a worker goes on from a commit that a failover has lost",
        (Edit("worker/process.py", "session.insists = True", "session.insists = False"),),
        ("tests/worker/test_older_copy.py::test_nobody_goes_on_from_a_commit_that_is_gone",),
    ),
)  # fmt: skip
"""25 that are known from the field (research on reliability, 5.1), and those that were found here."""
