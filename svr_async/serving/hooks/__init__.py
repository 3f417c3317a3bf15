"""Functions and classes in the shapes that trainers and evaluation tools call; each is loaded by its program only."""
