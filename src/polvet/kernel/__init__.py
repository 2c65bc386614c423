"""A model made fast: networks compiled to register code, packed states, exploration; reasons about nothing."""
