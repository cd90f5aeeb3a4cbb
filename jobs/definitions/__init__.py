"""Definitions: jobs, connections and policies as readable files and in the API, with names instead of ids."""
