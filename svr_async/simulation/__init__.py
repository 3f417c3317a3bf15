"""The simulated judge endpoint, with one planted world. Its results are labelled SIMULATED."""
