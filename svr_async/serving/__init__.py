"""Judging from programs: one pair, or the best of several responses, by a bank and an open judge."""
