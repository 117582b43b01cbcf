"""What the processes of a session have used: CPU time and memory, of a worker and of all that it has started."""

from dataclasses import dataclass

from bench.meter import PROC, cpu_seconds, peak_kb

# Its place in /proc/PID/stat after the name in parentheses, which may contain anything.
SESSION = 3


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one or several sessions, as far as their processes still live."""

    cpu_seconds: float
    peak_mb: float


def of_sessions(leaders: list[int]) -> Usage | None:
    """The usage of the sessions that these processes have opened; nothing where the system does not tell."""
    seconds, kilobytes, found = 0.0, 0, False
    for entry in PROC.glob("[0-9]*"):
        try:
            session = int((entry / "stat").read_text().rpartition(")")[2].split()[SESSION])
            if session in leaders:
                seconds += cpu_seconds(int(entry.name))
                kilobytes += peak_kb(int(entry.name))
                found = True
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return Usage(seconds, kilobytes / 1_000) if found else None
