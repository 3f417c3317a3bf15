"""Files, folders and addresses: atomic writes, capped reads, errors in one line, the Hugging Face hub."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from svr_async.errors import ConfigError, StorageError

ELSEWHERE = "choose another place with --out"
MOST_BYTES = 64 << 20  # of a file that is written by hand
PUBLIC_HUB = "https://huggingface.co"
HUB_SCHEME = "hf:"
PROBE_TIMEOUT_S = 5.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def write_atomic(path: str | os.PathLike[str], data: bytes, *, hint: str = ELSEWHERE) -> None:
    """Write a whole file: a temporary in the same folder, fsync, rename, fsync of the folder.

    Readers see the old content or the new, never a part. Missing folders are made. On any failure (no space, no
    permission …) StorageError is raised and the old file stays; `hint` says what to do unless the disk is full.
    """
    write_atomic_with(path, lambda file: file.write(data), hint=hint)


def write_lines(path: str | os.PathLike[str], lines: Iterable[bytes], *, hint: str = ELSEWHERE) -> None:
    """Do the same as `write_atomic` for lines that are made one by one, so that memory does not grow."""
    write_atomic_with(path, lambda file: file.writelines(lines), hint=hint)


def write_atomic_with(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object], *, hint: str = ELSEWHERE
) -> None:
    """Do the same as `write_atomic` for large content, which `write` writes to the open temporary."""
    target = Path(path)
    if is_special(target):
        _write_into(target, write, hint)
        return
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space and try again" if full else hint
        raise StorageError(f"cannot write {target}: {reason(error)}", hint=hint) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def is_special(target: Path) -> bool:
    """Whether a path is a device, a FIFO or a stream such as /dev/stdout: replacing it would break it for others."""
    stream = target.is_symlink() and str(target).startswith(("/dev/", "/proc/"))  # also if redirected to a file
    return stream or (target.exists() and not target.is_file() and not target.is_dir())


def _write_into(target: Path, write: Callable[[BinaryIO], object], hint: str) -> None:
    try:
        with target.open("ab") as file:  # "w" would truncate the file that a stream is redirected to
            write(file)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {reason(error)}", hint=hint) from error


def sync_folder(path: Path) -> None:
    """Make a rename in this folder durable."""
    if os.name != "posix":  # Windows cannot open a folder, and its rename is already durable
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """Return the operating system's words for an error, e.g. "No space left on device"."""
    return error.strerror or type(error).__name__


def read_plain(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file; OSError with its reason in `strerror` if it has more than `most`."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return data


def host_of(address: str) -> str:
    """Return the host of an address; "" if it has no host or is invalid."""
    with contextlib.suppress(ValueError):
        return urlsplit(address).hostname or ""
    return ""


def is_server(address: str) -> bool:
    """Whether an address is that of an http or https server."""
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def open_folder(out: Path, flag: str = "--out") -> None:
    """Make the folder that a run writes to; `flag` names it. StorageError if it cannot be made or written to."""
    hint = f"choose another place with {flag}"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {reason(error)}", hint=hint) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write to {out}: no permission", hint=hint)


def hub_server(endpoint: str | None = None) -> str:
    """Return the address of the hub: `endpoint`, else the variable HF_ENDPOINT, else the public one.

    ConfigError if it is not the address of a server.
    """
    server = endpoint or os.environ.get("HF_ENDPOINT") or PUBLIC_HUB
    if not is_server(server):
        raise ConfigError(f"{server[:80]!r} is not the address of a hub", hint="write HF_ENDPOINT as https://HOST")
    return server


def reachable(server: str) -> bool:
    """Whether a connection can be opened: the hub library would retry a dead address for half a minute.

    True without a check if a proxy is set, which only the library can use.
    """
    import socket  # slow to import, and needed for downloads only
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return True
    try:
        socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def first_line(error: Exception) -> str:
    """Return an error's class and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
