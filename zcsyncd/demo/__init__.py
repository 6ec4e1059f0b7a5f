"""The demo: the whole river in less than half a minute, in a home of its own."""
