"""Turns the bytes of a document into text: finds their kind and their charset, and reads HTML pages."""
