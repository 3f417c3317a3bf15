"""Learn which rubrics matter for a prompt: arrays in, arrays out; it knows neither rubrics' texts nor judges.

Nothing is imported here. `epoch`, `losses`, `selector`, `sparsemax`, `checkpoints`, `device` and `training`
import JAX; the other modules need only NumPy (SciPy and scikit-learn where something is learned).
"""
