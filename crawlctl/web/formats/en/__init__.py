"""The formats of moments in English."""
