"""The rounds of Algorithm 1: induce, judge, fit, prune, find the boundary, choose."""
