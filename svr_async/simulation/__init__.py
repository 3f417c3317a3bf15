"""The simulated judge endpoint: planted criteria, noise, faults. Its results are labelled simulated."""
