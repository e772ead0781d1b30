"""One module for each page of the reference that is generated."""
