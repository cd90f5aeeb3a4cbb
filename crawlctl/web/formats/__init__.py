"""The forms of moments and numbers that Django writes: the same in each language, because scripts and forms read them."""
