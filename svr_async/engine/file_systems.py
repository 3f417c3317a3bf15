"""Which kind of file system a path lies on, and which kinds are no place for a cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = re.compile(r"nfs|cifs|smb|9p|afs|ceph|gluster|lustre|gpfs|beegfs|orangefs|sshfs|s3fs|gcsfuse|davfs|vboxsf")
FLEETING = {"tmpfs", "ramfs"}


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the kind of the file system that holds a path, as Linux names it; "" where that cannot be told."""
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
