"""Rewards and scorers for other programs: trainers and evaluation tools, each in a file of its own."""
