"""Tokens of one row into what its client sees. Pure: no trio, no clock, no MLX."""
