"""The traces of many ranks, reduced to parts by many processes on many machines (`engines`), and merged to one answer (`__main__`)."""
