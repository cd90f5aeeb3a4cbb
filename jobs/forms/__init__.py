"""Forms that stand on watch pages and on set-up pages alike."""
