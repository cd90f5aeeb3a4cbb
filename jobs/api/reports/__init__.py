"""Reports: the history of documents, and their present states."""
