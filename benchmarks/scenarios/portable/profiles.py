"""Ways in which messages come and are handled: steadily, in bursts, slowly, and by subscribers of unequal speed.

What the library takes ahead must neither leave receivers waiting nor keep messages from those who are free.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks.bench import Bench, Scenario
from benchmarks.lines import Finding, paired
from benchmarks.profile_jobs import SUBSCRIBERS, TASKS, Profile, Profiled, ProfileJob

NAME = "portable-profile"
QUICK_PART = 0.4
PROFILES = (
    Profile("steady", bursts=400, burst=20, pause_s=0.01, handle_s=0.01, slow_s=0.01),
    Profile("bursty", bursts=8, burst=1_000, pause_s=0.5, handle_s=0.01, slow_s=0.01),
    Profile("slow", bursts=5, burst=160, pause_s=0.8, handle_s=0.2, slow_s=0.2),
    Profile("mixed", bursts=8, burst=1_000, pause_s=0.5, handle_s=0.01, slow_s=0.2),
)


def measure(bench: Bench) -> Iterator[Finding]:
    for full in PROFILES:
        profile = full if bench.scale.name == "full" else full.scaled(QUICK_PART)
        ours: list[Profiled] = []
        theirs: list[Profiled] = []
        for _ in range(bench.rounds("fast")):
            for shared, runs in ((False, ours), (True, theirs)):
                (found,) = bench.crew.run([ProfileJob(profile, shared)])
                runs.append(found)
        assert {each.tally for each in (*ours, *theirs)} == {ours[0].tally}
        note = f"{profile.messages:,} messages, {SUBSCRIBERS} subscribers with {TASKS} tasks each"
        rates = ([each.rate for each in runs] for runs in (ours, theirs))
        yield paired(f"{NAME}.rate-{profile.name}", *rates, note=note)
        yield Finding(
            name=f"{NAME}.ahead-{profile.name}",
            value=median([each.ahead_s for each in ours]),
            rounds=len(ours),
            note=note,
        )


SCENARIO = Scenario(
    NAME, tuple(f"{NAME}.{figure}-{profile.name}" for profile in PROFILES for figure in ("rate", "ahead")), measure
)
