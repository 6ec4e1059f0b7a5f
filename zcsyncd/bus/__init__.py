"""Stage 3 of the river: event to bytes to subscriber, request to bytes to answer."""
