"""The version of the package, as in pyproject.toml (a test compares them)."""

__version__ = "0.3.0"
