"""Learn which rubrics matter for a prompt: arrays in, arrays out; it knows neither rubrics' texts nor judges.

Only `epoch`, `margin_solver`, `mlp`, `structure`, `topics` and `training` import JAX.
"""
