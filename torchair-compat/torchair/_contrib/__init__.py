"""Private modules that public code imports."""
