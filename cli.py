"""Launcher for a checkout: `python cli.py eval …` is `svr eval …`."""

from svr_async.commands import main

if __name__ == "__main__":
    main()
