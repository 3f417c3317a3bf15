"""The paper's tables and figures: what is printed, what adds up, and both rebuilt beside it from runs."""
