"""Forms that both watch pages and set-up pages have."""
