"""The operating system: the kind of file system of a path, and the number of files that may be open."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = re.compile(r"nfs|cifs|smb|9p|afs|ceph|gluster|lustre|gpfs|beegfs|orangefs|sshfs|s3fs|gcsfuse|davfs|vboxsf")
FLEETING = {"tmpfs", "ramfs"}


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the kind of the file system that holds a path, as Linux names it; "" if unknown."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    real, best, kind = os.path.realpath(path), "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        if len(point) >= len(best) and (real == point or real.startswith(f"{point.rstrip('/')}/")):
            best, kind = point, right.split()[0]
    return kind


def descriptors_for(wanted: int) -> int | None:
    """Ask for `wanted` file descriptors and return how many this process may have; None if there is no limit."""
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
