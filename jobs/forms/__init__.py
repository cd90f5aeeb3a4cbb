"""Forms that are used on watch pages and on set-up pages."""
