"""Mistakes about outside services: what counts against them, when they are left alone, how often they are called."""

from __future__ import annotations

from tests.mutants.applying import Edit, Mutant

HEALTH = "tests/worker/test_source_health.py"

MUTANTS = (
    Mutant(
        "no transient classes",
        "no HTTP status and no class of a client is known to pass",
        (
            Edit("model/retry.py", "frozenset({408, 425, 429, *range(500, 600)})", "frozenset[int]()"),
            Edit("model/retry.py", "names & _TRANSIENT_NAMES", "not names"),
        ),
        ("tests/unit/test_transient.py",),
    ),
    Mutant(
        "every error is the source's",
        "an error that is not known to pass counts as a failure of its source",
        (
            Edit("worker/source_reports.py", "if fault.is_transient:", "if not fault.is_permanent:"),
            Edit(
                "authoring/calls.py",
                "if is_transient(error, self._retry):\n            heard",
                "if True:\n            heard",
            ),
        ),
        (f"{HEALTH}::test_an_error_that_is_not_known_to_pass_neither_pauses_nor_disables_its_source",),
    ),
    Mutant(
        "retry-after at the end",
        "a source that asks to be left alone is closed when the stage ends, and not at once",
        (
            Edit("authoring/calls.py", "                yield Take(gate, source.gate, tokens=0, pause_ms=asked_ms)",
                 "                yield asked_ms"),
            Edit("authoring/calls.py", "self._desk.closed.close(source.instance(self._key), asked_ms, now)", "pass"),
        ),
        (f"{HEALTH}::test_a_source_that_asks_to_be_left_alone_is_closed_at_once_and_for_that_long",),
    ),
    Mutant(
        "stale tokens",
        "a call with a token from the claim does not ask whether its source has closed since",
        (Edit("authoring/calls.py", "elif holds and abs(now - open_at) < FRESH_MS:", "elif holds:"),),
        (f"{HEALTH}::test_a_token_from_the_claim_is_of_no_use_once_the_source_has_closed",),
    ),
    Mutant(
        "calls not counted",
        "a stage makes as many outside calls as it likes, whatever it declares",
        (Edit("authoring/calls.py", "may_begin = self._begun < self._allowed", "may_begin = True"),),
        ("tests/worker/test_declared_calls.py",),
    ),
    Mutant(
        "one stage a task",
        "the worst case of an hour counts one stage of a task alone",
        (Edit("views/worst_hour.py", "together += requests", "together = max(together, requests)"),),
        ("tests/unit/test_hourly.py::test_a_task_goes_through_all_its_stages",),
    ),
    Mutant(
        "tokens of other calls go back",
        "a call of another source than its own costs a stage nothing, so that no rate bounds it",
        (Edit("authoring/calls.py", "min(self._left, max(0, self._stage.tokens - self._begun))", "self._left"),),
        ("tests/worker/test_declared_calls.py::test_a_call_of_another_source_uses_up_a_token_of_the_own_one",),
    ),
    Mutant(
        "what passes counts",
        "an error that is known to pass is one of the same in a row",
        (
            Edit("model/decide.py", "None if is_transient else retry.most_same_errors", "retry.most_same_errors"),
            Edit("store/sql/tasks.sql", "same_errors + :counted ELSE :counted", "same_errors + 1 ELSE :counted + 1",
                 "try_again"),
        ),
        ("tests/worker/test_same_errors.py::test_an_error_whose_class_is_known_to_pass_never_counts",),
    ),
    Mutant(
        "retries by code alone",
        "how often and how soon stages are tried again does not follow from the settings",
        (Edit("worker/decide_move.py", "in_force(attempt.pipeline.retry, self.config.usual_retries)",
              "attempt.pipeline.retry"),),
        ("tests/worker/test_settings.py"
         "::test_a_stage_is_tried_again_as_the_settings_say_where_its_pipeline_does_not",),
    ),
    Mutant(
        "breakers by code alone",
        "when a source is left alone does not follow from the settings",
        (Edit("worker/source_reports.py", "rule_in_force(report.breaker, usual)", "report.breaker"),),
        ("tests/worker/test_settings.py::test_a_source_is_left_alone_as_the_settings_say_where_it_does_not",),
    ),
)  # fmt: skip
