"""The pages of distributed jobs."""
