"""The actor kernel: it knows trio and attrs, no model, no token and no HTTP."""
