"""Algorithm 1: induce candidates, build the bank, judge pools, look for support, prune, in rounds."""
