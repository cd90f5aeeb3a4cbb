"""The forms of moments in English."""
