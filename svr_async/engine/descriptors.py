"""How many files and sockets this process may have open at once."""

from __future__ import annotations

from contextlib import suppress


def descriptors_for(wanted: int) -> int | None:
    """Return how many descriptors there may be after asking for `wanted`; None where nothing bounds them."""
    try:
        import resource
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and soft < wanted:
        soft = min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft
