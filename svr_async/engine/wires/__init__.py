"""Wires: how an endpoint is spoken to, a file for each shape of API."""
