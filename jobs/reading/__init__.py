"""The text of bytes that the crawl has read: their kind, their charset, and the pages of HTML."""
