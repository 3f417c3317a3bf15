"""`python -m svr_async`: the same as `svr`."""

from svr_async.commands import main

if __name__ == "__main__":
    main()
