"""What of the job finder is looked at now and then: sources that are disabled, or that wait for a person."""

from __future__ import annotations

from onceward import Watch

WATCHES = (
    Watch(
        "job source disabled",
        "SELECT 1, source FROM jobs_source WHERE status = 'disabled' ORDER BY source",
        above=0,
        advice="See why with `onceward-jobs sources`, and read it again with `onceward-jobs sources --enable SOURCE`.",
    ),
    Watch(
        "job sources wait for approval",
        "SELECT count(*) FROM jobs_source WHERE awaits_approval = 1",
        above=50,
        advice="See them with `onceward-jobs approve`, and have them read with `onceward-jobs approve SOURCE`.",
    ),
)
