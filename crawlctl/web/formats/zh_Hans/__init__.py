"""The formats in this language, which are those of English."""
