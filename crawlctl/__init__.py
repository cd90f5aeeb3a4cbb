"""The composition root: the package that joins the applications `nodes` and `jobs` into the program crawlctl."""

__version__ = "0.1.0"
