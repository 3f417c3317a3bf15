"""Rewards, rankings and comparisons over HTTP, in the shapes that trainers and rerankers' clients speak."""
