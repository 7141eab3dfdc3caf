"""Peak memory of a piece of work."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.platform != "win32":
    import resource

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> bool:
    """Starts a new measurement; false where only the peak since the process began is known.

    On Linux the kernel's high-water mark of this process can be set back. Memory that is in use
    already, such as the libraries, is part of every peak.
    """
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def peak_mib() -> float | None:
    """Most memory the process has held at once since :func:`reset_peak`, in MiB."""
    try:
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        if sys.platform == "win32":
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
