"""The offline judge: a registry of checks, constraints read out of prompts, a list of general checks."""
