"""Permissive schedulers, learning inside them, and shields; it forbids actions and does not repair policies."""

from polvet.shield.file import Shield, load_shield, make_shield
from polvet.shield.permissive import Impossible, Permitted, permit
from polvet.shield.world import World, build_world

__all__ = ["Impossible", "Permitted", "Shield", "World", "build_world", "load_shield", "make_shield", "permit"]
