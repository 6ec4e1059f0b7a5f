"""The control command: one verb, one request, one answer."""
