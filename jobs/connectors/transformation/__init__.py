"""Transformations: the stages of a job's pipeline, between its source and its outputs."""
