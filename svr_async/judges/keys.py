"""Which variable a refused key comes from: an engine is given keys without their names, the profiles know them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from svr_async.errors import AuthError

NO_VARIABLE = 'no variable is named for its key: key_env = "NAME" in judges.toml names one'


@contextmanager
def naming_keys(variables: Iterable[str]) -> Iterator[None]:
    """Let an AuthError that passes say which variable to mend: those of all endpoints that may be asked, "" for none.

    The error is left as it is where no endpoint is asked.
    """
    names = tuple(dict.fromkeys(variables))
    try:
        yield
    except AuthError as error:
        raise AuthError(error.message, hint="; ".join(map(key_hint, names)) or error.hint) from error


def key_hint(variable: str) -> str:
    """Say how to mend a key that was refused: set a variable that is not set, look again at one that is."""
    if not variable:
        return NO_VARIABLE
    if os.environ.get(variable):
        return f"check the key in ${variable}: it is set, and refused"
    return f"set ${variable} to its key, then run the same command again"
