"""What `vocabulary/safetext.py` offers, under the name that the pages and commands know it by."""

from svr_async.vocabulary.safetext import capped, for_terminal, one_line, unix_newlines, visible

__all__ = ["capped", "for_terminal", "one_line", "unix_newlines", "visible"]
