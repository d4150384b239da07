"""What is kept of a parameter beside it, in which format, and in files."""
