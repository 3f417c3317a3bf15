"""Figures as files: a model of plain values in, SVG and PNG out."""
