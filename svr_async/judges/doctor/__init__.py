"""What an endpoint is found to do: a few small questions, and what their answers tell."""
