"""The composition root of crawlctl."""

__version__ = "0.1.0"
