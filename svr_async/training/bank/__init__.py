"""Rubrics before they have weights: screened, distinguished, merged; and the care of banks."""
