"""The mistakes: one for each way in which queues of this kind have been seen to lose, repeat or overrun."""

from __future__ import annotations

from tests.mutants import commits, declarations, lending, processes, sources
from tests.mutants.applying import Edit, Mutant

TASKS = "store/sql/tasks.sql"
GOVERNANCE = {dialect: f"store/sql/governance.{dialect}.sql" for dialect in ("sqlite", "postgres")}
NAMES_TOKENS = ("  AND instr(:tokens, token)\n", "      AND token = ANY (:tokens::bytea[])\n")
"""That a group of commits names the tokens of its leases, on SQLite and on PostgreSQL."""
COMMITS = "store/attempts/commits.py"
WRITE_MOVE = "store/attempts/write_move.py"


def _when_refused(also: str) -> tuple[Edit, Edit]:
    """Something is done of a commit that the fence has refused: of one in a group, and of one by itself."""
    loss = "batch.note_refusal(lease, move)\n"
    in_group, alone = 12 * " ", 8 * " "
    return (
        Edit(
            COMMITS, f"{in_group}{loss}{in_group}continue\n", f"{in_group}{loss}{in_group}{also}\n{in_group}continue\n"
        ),
        Edit(WRITE_MOVE, f"{alone}{loss}{alone}return False\n", f"{alone}{loss}{alone}{also}\n{alone}return False\n"),
    )


def _on_both(room: str, query: str, in_sqlite: str, in_postgres: str, new: str = "") -> tuple[Edit, Edit]:
    """The same mistake in the two spellings of a query."""
    return (
        Edit(f"store/sql/{room}.sqlite.sql", in_sqlite, new, query),
        Edit(f"store/sql/{room}.postgres.sql", in_postgres, new, query),
    )


MUTANTS = (
    *processes.MUTANTS,
    *sources.MUTANTS,
    *lending.MUTANTS,
    *commits.MUTANTS,
    *declarations.MUTANTS,
    Mutant(
        "epoch dropped",
        "a group of commits does not name the fence",
        (
            *_on_both("attempts", "finish_group", "  AND fence = :fence\n", "      AND fence = :fence\n"),
            *_on_both("attempts", "advance_group", "  AND fence = :fence\n", "      AND fence = :fence\n"),
        ),
        ("tests/worker/test_fence.py::test_a_new_claim_of_ours_lets_nothing_of_an_old_one_through",),
    ),
    Mutant(
        "token dropped",
        "a group of commits names the fence, and no token",
        (
            *_on_both("attempts", "finish_group", *NAMES_TOKENS),
            *_on_both("attempts", "advance_group", *NAMES_TOKENS),
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
        ("tests/worker/test_leases.py::test_a_worker_that_has_just_begun_must_look_twice",),
    ),
    Mutant(
        "dedupe without index",
        "whoever asks last has an identity, as if no unique key had kept it",
        (
            Edit("store/sql/lineage.sqlite.sql", "DO NOTHING", "DO UPDATE SET task = excluded.task",
                 "take_free_identities"),
            Edit("store/sql/lineage.postgres.sql", "DO UPDATE SET task = onceward_identity.task",
                 "DO UPDATE SET task = excluded.task", "take_free_identities"),
        ),
        ("tests/worker/test_spawning.py::test_a_child_asked_for_again_is_the_same_child",),
    ),
    Mutant(
        "budget check-then-act",
        "what is left of a budget is read without locking its row",
        (
            Edit(GOVERNANCE["postgres"], "\nFOR UPDATE", "", "hold_budgets"),
            Edit(GOVERNANCE["postgres"], "\nFOR UPDATE OF b", "", "hold_all_budgets"),
        ),
        ("tests/faults/test_budgets.py::test_claims_that_race_set_aside_no_more_than_there_is",),
    ),
    Mutant(
        "weights never settled",
        "what a stage has really used of a weight is not told to its source",
        (Edit("authoring/context.py", "            reports += self._weighed()\n", ""),),
        ("tests/worker/test_weights.py::test_what_was_really_used_is_what_counts",),
    ),
    Mutant(
        "hold without a look",
        "a hold is set aside whether or not its budget has enough left",
        (Edit("store/governance/holds.py", "if account.is_closed or short > left[key]:", "if account.is_closed:"),),
        ("tests/worker/test_holds.py::test_a_hold_that_does_not_fit_waits_for_the_budget_and_is_woken_when_it_does",),
    ),
    Mutant(
        "hold freed by its attempt",
        "what a task holds is settled with the attempt that held it",
        (Edit("store/sql/budgets.sql", "  AND hold = ''\n", "", "end_reservations"),),
        ("tests/worker/test_holds.py::test_a_stage_with_an_estimate_of_its_own_leaves_the_hold_alone",),
    ),
    Mutant(
        "hold lost with its worker",
        "a hold of a task that is open counts as spent",
        (Edit("store/sql/budgets.sql", "(t.status >= #ended AND r.state <> 2)", "r.state <> 2",
              "orphaned_reservations"),
         Edit("store/sql/budgets.sql", "      AND t.status >= #ended\n", "", "lose_holds")),
        ("tests/worker/test_holds.py::test_a_hold_is_kept_through_deaths_and_set_aside_once",),
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
        _when_refused("batch.add_effects(one)"),
        ("tests/worker/test_fence.py::test_no_stage_spawns_under_a_lost_lease",),
    ),
    Mutant(
        "stage ledger not unique",
        "what a stage has stored is stored once more by the next attempt",
        (
            Edit("store/sql/migrations/0001_schema.sqlite.sql",
                 "    at integer NOT NULL,\n    PRIMARY KEY (task, run, stage, part)\n) WITHOUT ROWID;",
                 "    at integer NOT NULL\n);"),
            Edit("store/sql/migrations/0001_schema.postgres.sql",
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
        (Edit("store/drivers/session.py", "if attempt.is_sent and self._settled(attempt, patience):", "if False:"),),
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
        (Edit(TASKS, "  AND status IN #open\n", "", "cancel"),),
        ("tests/worker/test_operating.py::test_what_has_ended_cannot_be_cancelled",),
    ),
    Mutant(
        "unconditional batch decrement",
        "a batch that has ended goes on counting",
        _on_both("lineage", "count_batches", "\n  AND status = #batch_open", "\n  AND b.status = #batch_open"),
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
        (
            Edit(
                "store/operations/pruning.py",
                "{as_uuid(row[2]) for row in gone} - left",
                "{as_uuid(row[2]) for row in gone}",
            ),
        ),
        (
            "tests/worker/test_spawning.py::test_what_the_guard_must_know_is_kept_as_long_as_anything_of_the_lineage_is_there",
        ),
    ),
    Mutant(
        "random ids",
        "what must be the same for every attempt is drawn anew",
        (
            Edit("authoring/context.py", 'text = f"{lease.lineage}/{lease.task}/{lease.run}/{self._stage.name}"',
                 'text = f"{lease.lineage}/{lease.task}/{lease.fence}/{self._stage.name}"'),
        ),
        ("tests/worker/test_parts.py::test_the_idempotency_key_changes_with_task_stage_and_fresh_run_only",),
    ),
    Mutant(
        "terminal overwritten",
        "a late success overwrites a cancel",
        (
            Edit(TASKS, "ended_at = :now, token = NULL, ", "ended_at = :now, ", "cancel"),
            *_on_both("attempts", "finish_group", "\n  AND status = #running", "\n      AND status = #running"),
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
        (
            Edit(
                "store/lineage/insert_children.py",
                "parent.limits if child.bounds is None else",
                "None if child.bounds is None else",
            ),
        ),
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
        _on_both("attempts", "lease_tasks", "  AND status IN #startable\n", "      AND t.status IN #startable\n"),
        ("tests/worker/test_operating.py::test_a_pending_task_is_cancelled_and_never_runs",),
    ),
    Mutant(
        "synchronous off",
        "a commit does not wait for the disk",
        (
            Edit("store/drivers/sqlite.py", "PRAGMA synchronous = full", "PRAGMA synchronous = off"),
            Edit("store/drivers/postgres.py", "SET jit = off", "SET jit = off; SET synchronous_commit = off"),
        ),
        ("tests/store/test_durability.py",),
    ),
    Mutant(
        "mmap on",
        "the file is mapped into memory, where a stray write or a truncation reaches it",
        (
            Edit("store/drivers/sqlite.py", 'connection.execute("PRAGMA synchronous = full")',
                 'connection.execute("PRAGMA synchronous = full; PRAGMA mmap_size = 268435456")'),
        ),
        ("tests/store/test_durability.py",),
    ),
    Mutant(
        "batch cut by max_children",
        "a batch of a stage has as many tasks as a task may have children, and ends as if these were all",
        (
            Edit("store/lineage/spawn_guard.py", "None if request.batch else children[task]", "children[task]"),
            Edit("store/lineage/spawn_guard.py", "children[task] += request.batch is None", "children[task] += 1"),
            Edit("store/lineage/spawn_guard.py", "parent.children + parent.wanted <=",
                 "parent.children + parent.wanted + sum(b.wanted for b in self.in_batches.values()) <="),
            Edit(
                "store/lineage/spawn_guard.py",
                "if request.batch is not None and refused.rule in LIMITS and",
                "if False and",
            ),
        ),
        ("tests/worker/test_stage_batches.py::test_members_of_a_batch_do_not_count_as_children_of_the_task_that_opens_it",),
    ),
    Mutant(
        "lines without end",
        "each refusal of a lineage is a line of the log, however many there are",
        (Edit("model/log_quota.py", "if known[1] >= MOST_LINES:", "if False:"),),
        ("tests/worker/test_spawning.py::test_a_lineage_has_five_lines_of_refusals_a_minute_and_a_count_of_the_others",),
    ),
    Mutant(
        "dropped for ever",
        "a lease that was lost stands again after a restore, and stays with the worker that has dropped it",
        (
            Edit("worker/keeper.py", "dropped := self._runner.leases.lost(RECEIPT_IS_THERE_MS)",
                 "dropped := list[Lease]()"),
        ),
        ("tests/worker/test_older_copy.py"
         "::test_what_others_had_cancelled_and_is_running_again_runs_though_no_commit_of_its_worker_is_gone",),
    ),
    Mutant(
        "retry unchecked",
        "a pipeline takes anything for its retries, and its worker stumbles over it when a stage fails",
        (Edit("authoring/pipeline.py", 'checked_value("retry", retry, Retry, "Retry(retries=3)")', "pass"),),
        ("tests/unit/test_declarations.py",),
    ),
    Mutant(
        "import without a past",
        "where an imported item came from, and the details of its error, are forgotten",
        (Edit("client/importing.py", "[was, *item.facts]", "[was]"),),
        ("tests/worker/test_import.py"
         "::test_where_an_item_came_from_and_the_details_of_its_error_are_kept_in_its_log",),
    ),
    Mutant(
        "refusal without a key",
        "the sentence of a refused cycle does not say which key",
        (Edit("model/lineage.py", "is the same work ({spawn.in_words})", "is the same work"),),
        ("tests/worker/test_spawning.py"
         "::test_the_sentence_of_a_refusal_holds_the_key_also_of_a_payload_without_one",),
    ),
    Mutant(
        "a line for each refusal",
        "a stage that asks again and again for what is refused fills the log",
        (Edit("model/log_quota.py", "if known[1] >= MOST_LINES:", "if False:"),),
        ("tests/worker/test_spawning.py::test_a_lineage_has_five_lines_of_refusals_a_minute_and_a_count_of_the_others",),
    ),
    Mutant(
        "lineage out of order",
        "a commit of several stages of a lineage locks them group by group",
        (Edit(COMMITS, "elif places.statements > 1 and (", "elif False and ("),),
        ("tests/isolation/test_orders.py::test_two_transactions_end_well_wherever_one_of_them_is_held_up",),
    ),
    Mutant(
        "past not insisted on",
        "a worker goes on from a commit that a failover has lost",
        (Edit("worker/process.py", "session.insists = True", "session.insists = False"),),
        ("tests/worker/test_older_copy.py::test_no_worker_goes_on_from_a_commit_that_is_gone",),
    ),
    Mutant(
        "silence after the end",
        "what is handed in after the last transaction of a worker is never answered",
        (Edit("worker/committer.py", "        if self._has_ended:\n", "        if False:\n"),),
        ("tests/worker/test_committer.py::test_what_is_handed_in_after_the_last_transaction_is_answered_as_lost",),
    ),
    Mutant(
        "begins what it has lost",
        "a worker that has lost all leases begins what it had claimed ahead",
        (
            Edit(
                "worker/runner.py",
                "        self.claims.is_closed = True\n        while self.claims.give_up() is not None:\n",
                "        while False:\n",
            ),
        ),
        (
            "tests/worker/test_going_on.py"
            "::test_a_worker_that_has_lost_all_leases_begins_nothing_that_it_had_claimed_ahead",
        ),
    ),
    Mutant(
        "dead places end a look",
        "a claim that has met only dead places finds the lines empty",
        (Edit("worker/claim_ahead.py", " and not claimed.met_dead\n        if is_all", "\n        if is_all"),),
        ("tests/worker/test_dead_places.py::test_tasks_behind_cancelled_ones_run_without_another_look",),
    ),
    Mutant(
        "dead places take tokens",
        "cancelled tasks take the tokens of a source",
        (Edit("store/attempts/claims.py", "passages, set(wanted).difference(", "passages, set().difference("),),
        ("tests/worker/test_dead_places.py::test_cancelled_tasks_take_no_token_of_their_source",),
    ),
    Mutant(
        "threads not counted",
        "a worker claims tasks for which it has no thread",
        (Edit("store/lines/lines.py", "count = min(count, memory.claim.threads)", "count = min(count, ANY_RANK)"),),
        ("tests/worker/test_claiming.py::test_no_more_tasks_are_claimed_than_there_are_threads_for",),
    ),
    Mutant(
        "bursts taken for a rate",
        "long stages that end together are taken for short ones, and as many more are claimed",
        (Edit("worker/claim_ahead.py", "min(MOST_AHEAD, ended, self._ended_soon(self.config.concurrency))",
              "min(MOST_AHEAD, ended)"),),
        ("tests/worker/test_going_on.py::test_where_stages_take_long_and_end_together_nothing_is_claimed_ahead",),
    ),
    Mutant(
        "slow claims not heeded",
        "as much is claimed ahead as if a claim took no time",
        (Edit("worker/claim_ahead.py", "(AHEAD_MS + 4 * self._answer_ms)", "AHEAD_MS"),),
        ("tests/worker/test_going_on.py::test_more_is_claimed_ahead_where_claims_take_longer",),
    ),
    Mutant(
        "moments without end",
        "a reader remembers every moment while a transaction of others stays open",
        (Edit("store/lines/memory.py", "del memory.places.snapshots[1::2]", "pass"),),
        (
            "tests/store/test_growth_of_memory.py"
            "::test_a_reader_remembers_few_moments_while_a_transaction_of_others_stays_open",
        ),
    ),
    Mutant(
        "mark not renewed",
        "the mark of a line in use grows old and is deleted under its readers",
        (Edit("store/lines/memory.py", "    if renews and (", "    if False and ("),),
        ("tests/store/test_growth_of_memory.py::test_the_mark_of_a_line_in_use_stays_and_nothing_there_is_overlooked",),
        dialect="postgres",
    ),
    Mutant(
        "old place remembered",
        "a reader begins at a place in a line whose marks are gone",
        (Edit("store/lines/memory.py", "            memory.places.forget_old(now)\n", ""),),
        ("tests/store/test_growth_of_memory.py::test_a_reader_has_forgotten_a_line_before_its_marks_go",),
        dialect="postgres",
    ),
    Mutant(
        "links are not foreseen",
        "a task that links to an open task and joins locks that task after all others",
        (Edit(COMMITS, "        known |= yield from read_open_holders(wanted)\n", "        pass\n"),),
        ("tests/isolation/test_orders.py::test_two_transactions_end_well_wherever_one_of_them_is_held_up",),
    ),
)  # fmt: skip
"""25 that are known from the field (research on reliability, 5.1), and those that were found here."""
