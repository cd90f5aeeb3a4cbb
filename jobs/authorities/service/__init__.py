"""The service: which authorities are asked about whom, how many at once, and for how long. It knows no database."""
