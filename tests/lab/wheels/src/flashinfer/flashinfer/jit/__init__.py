"""Just-in-time compilation: here only its environment."""
