"""How much memory a process has taken at most."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path


def peak_mb(status: Path = Path("/proc/self/status")) -> float:
    """Peak resident memory of this process, in MB of a million bytes.

    Linux keeps in ru_maxrss what the parent had when it forked, so /proc is asked first.
    """
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text("ascii"), re.MULTILINE)
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1_024 / 1e6
    unit_bytes = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / 1e6
