"""What a long run consists of: the faults that tell most first, the others after them, then the first ones again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Course:
    """A part of a long run: a command of this project's Python."""

    name: str
    command: tuple[str, ...]

    @staticmethod
    def of_tests(name: str, *tests: str) -> Course:
        """The long fault tests in some files or folders."""
        return Course(name, ("-m", "pytest", "-q", "-n", "2", "--timeout=3600", "-m", "torture", *tests))


SIMULATION = "simulated worlds"
"""Runs beside the courses, in the time that these leave."""

AGAIN = (
    Course.of_tests("processes killed", "tests/faults/test_kills.py"),
    Course.of_tests("processes that freeze and come back", "tests/faults/test_frozen_workers.py"),
    Course.of_tests("replies lost", "tests/faults/test_lost_replies.py", "tests/faults/test_lost_answers.py"),
    Course.of_tests(
        "servers crashed, connections cut",
        "tests/faults/test_postgres_faults.py",
        "tests/faults/test_frozen_servers.py",
    ),
    Course.of_tests("disks that fail, power that goes", "tests/disk"),
)
"""Their dice start from another seed each time."""

ONCE = (
    Course("models", ("-m", "tests.models", "--larger")),
    Course("mistakes put into the source", ("-m", "tests.mutants")),
    Course.of_tests(
        "processes ended in other ways",
        "tests/faults/test_crash_points.py",
        "tests/faults/test_poison.py",
        "tests/faults/test_stop_storms.py",
        "tests/faults/test_stopping.py",
        "tests/faults/test_supervision.py",
        "tests/faults/test_syscalls.py",
        "tests/faults/test_blocking_code.py",
    ),
    Course.of_tests("failovers", "tests/faults/test_failover.py", "tests/faults/test_standbys.py"),
    Course.of_tests(
        "networks, poolers, connections",
        "tests/faults/test_partition.py",
        "tests/faults/test_pgbouncer.py",
        "tests/faults/test_connections_refused.py",
        "tests/faults/test_lost_connections.py",
        "tests/faults/test_dead_machines.py",
        "tests/faults/test_lock_queues.py",
        "tests/faults/test_held_snapshots.py",
        "tests/faults/test_full_servers.py",
    ),
    Course.of_tests("busy for long", "tests/faults/test_soak.py"),
    Course.of_tests("clocks", "tests/faults/test_clocks.py", "tests/unit/test_schedule_calendar.py"),
    Course.of_tests(
        "races of the engine's own",
        "tests/faults/test_batches.py",
        "tests/faults/test_budgets.py",
        "tests/faults/test_cache.py",
        "tests/faults/test_expiry.py",
        "tests/faults/test_hostile_web.py",
        "tests/faults/test_schedules.py",
        "tests/faults/test_sources.py",
        "tests/faults/test_spawn_races.py",
        "tests/faults/test_ticks.py",
    ),
    Course.of_tests("orders of statements, programs beside a model", "tests/isolation", "tests/property"),
    Course.of_tests("the tests of store and worker with trouble", "tests/faults/test_conformance.py"),
    Course.of_tests("hostile rows, limits of processes", "tests/security"),
    Course.of_tests("applications", "tests/apps"),
    Course.of_tests("the dashboard and its API", "tests/web"),
    Course("all tests with the lowest versions of packages", ("-m", "tests.lowest")),
    Course.of_tests("the rest", "tests/bench", "tests/models", "tests/simulation", "tests/store", "tests/worker"),
)

COURSES = (*AGAIN, *ONCE)
NAMES = (SIMULATION, *(course.name for course in COURSES))


def courses_of(command: str) -> set[str]:
    """Which courses a command is of: it runs what they run, or some of it."""
    words = set(command.split())
    found = {course.name for course in COURSES if words & _subjects(course.command)}
    return found | ({SIMULATION} if "tests.simulation" in words else set())


def _subjects(command: tuple[str, ...]) -> set[str]:
    return {word for word in command if word.startswith(("tests/", "tests."))}
