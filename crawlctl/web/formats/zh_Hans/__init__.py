"""The forms in this language: those of English."""
