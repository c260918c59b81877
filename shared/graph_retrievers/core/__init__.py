"""The heart: requests, the driver that answers them together, candidates, operators and their compositions."""
