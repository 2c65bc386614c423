"""Doors to outside software, one file each, imported at first use; no algorithm of ours lives here."""
