"""What is derived from the log, and every surface through which it is asked."""
