"""Where the cache lies when nobody says: the project's folder where it has one, else one place for each user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "SVR_CACHE"
PROJECT = Path("cache/replies")
MARK = Path("cache/.svr")


def cache_place() -> Path:
    """Return the folder of replies.

    It is that of $SVR_CACHE; else `cache/replies` of the working folder, where it is there already, as earlier versions
    made it everywhere, or where the file `cache/.svr` says that it may be made; else one in the user's cache folder.
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        return Path(named).expanduser()
    return PROJECT if PROJECT.is_dir() or MARK.is_file() else user_cache() / "replies"


def user_cache() -> Path:
    """Return this user's cache folder for us, where the platform has such folders; it need not be there."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "svr-async" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "svr-async"
    named = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (named if named.is_absolute() else home / ".cache") / "svr-async"  # a relative one is to be ignored (XDG)


def told_place() -> str:
    """Return the rule in a few words, for the help of commands."""
    return f"${VARIABLE}, ./{PROJECT} where it is, or your cache folder"
