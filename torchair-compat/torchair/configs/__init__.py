"""Configuration of the backend."""
