"""What a model is, as plain data, and one slow interpreter of what it does; knows no file format and no solver."""
