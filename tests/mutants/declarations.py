"""Mistakes about what an application declares: what is taken, what it bounds, and how its batches and retries end."""

from __future__ import annotations

from tests.mutants.applying import Edit, Mutant

STAGE = "authoring/stage.py"
BATCHES = "tests/worker/test_stage_batches.py"

MUTANTS = (
    Mutant(
        "any function is a stage",
        "a function that needs more than a context is taken for a stage",
        (
            Edit(
                STAGE,
                "        except TypeError:\n            fits = False\n",
                "        except TypeError:\n            pass\n",
            ),
        ),
        ("tests/unit/test_declarations.py::test_a_stage_is_a_function_that_takes_its_context_alone",),
    ),
    Mutant(
        "generators are stages",
        "a function that yields is taken for a stage, and nothing in it ever runs",
        (
            Edit(
                STAGE, "if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):", "if False:"
            ),
        ),
        ("tests/unit/test_declarations.py::test_a_stage_is_a_function_that_takes_its_context_alone",),
    ),
    Mutant(
        "returned verdicts are results",
        "a verdict that is returned, not raised, is an odd result that is tried again",
        (Edit(STAGE, "        if isinstance(value, Verdict):\n", "        if False:\n"),),
        (
            "tests/worker/test_effects.py"
            "::test_a_verdict_that_is_returned_or_a_call_not_awaited_fails_the_task_for_good",
        ),
    ),
    Mutant(
        "unbounded passes the gate",
        "a bound of a build passes where nothing bounds what it names",
        (
            Edit(
                "views/worst_hour.py",
                "return self.most is None or self.most > allowed",
                "return self.most is not None and self.most > allowed",
            ),
        ),
        ("tests/unit/test_hourly.py::test_a_bound_fails_for_what_it_names_and_for_nothing_else",),
    ),
    Mutant(
        "refused members are forgotten",
        "a batch of which a limit has refused a part succeeds",
        (
            Edit(
                "model/batch.py",
                "counts.failed + counts.cancelled + counts.refused",
                "counts.failed + counts.cancelled",
            ),
        ),
        (f"{BATCHES}::test_a_stage_that_opens_its_batch_again_counts_each_refusal_once",),
    ),
    Mutant(
        "repeats spoil a batch",
        "a task that is there already counts as one that a limit has refused",
        (
            Edit(
                "store/lineage/stage_batches.py",
                "return decision.refused is not None and decision.refused.rule in LIMITS",
                "return decision.refused is not None",
            ),
        ),
        (f"{BATCHES}::test_children_that_are_refused_are_not_in_it_and_the_refusals_are_kept",),
    ),
    Mutant(
        "no brake by default",
        "where time alone bounds retries, the same error may come for as long as there is time",
        (
            Edit("model/retry.py", '        said["same_errors"] = usual.same_errors\n', "        pass\n"),
            Edit("model/retry.py", "USUAL_RETRIES.same_errors if self.retries is None else None", "None"),
        ),
        ("tests/worker/test_same_errors.py::test_where_time_alone_bounds_retries_five_of_the_same_are_enough",),
    ),
    Mutant(
        "marks for ever",
        "the marks of governed lines that nothing uses any more are kept",
        (Edit("store/lines/memory.py", '"before": now - MARKS_OF_LINES_KEPT_MS', '"before": 0'),),
        ("tests/store/test_growth_of_memory.py::test_marks_of_lines_that_are_not_used_go_however_many_there_are",),
    ),
    Mutant(
        "told before it is so",
        "the application is told of a failed attempt before that is committed",
        (
            Edit(
                "worker/runner.py",
                "        if verdict is not True and isinstance(verdict, Exception):\n",
                "        self._failures.tell(attempt, move, None, self._now())\n"
                "        if verdict is not True and isinstance(verdict, Exception):\n",
            ),
        ),
        ("tests/worker/test_failures.py::test_the_application_is_told_of_every_failed_attempt_after_its_commit",),
    ),
)
