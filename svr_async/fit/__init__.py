"""Learn which rubrics matter for a prompt: arrays in, arrays out; it knows neither rubrics' texts nor judges.

Nothing is imported here. `arrays`, `config`, `files`, `forward`, `linear`, `measure`, `overlap`, `ragged`, `tfidf` and
`topics` need only NumPy (and scikit-learn where something is learned); the other modules import JAX.
"""
