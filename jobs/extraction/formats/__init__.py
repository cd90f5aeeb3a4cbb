"""Readers of formats: each gets the bytes of a file and a budget, and returns a `Raw`."""
