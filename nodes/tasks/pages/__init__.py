"""The pages of background tasks."""
