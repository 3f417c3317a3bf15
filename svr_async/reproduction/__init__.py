"""The paper's tables and figures: printed numbers, checks of their sums, and both rebuilt from runs."""
