"""The papers' benchmark worlds as generators of models with start, fail and goal; no policy and no algorithm here."""

from polvet.domains.catalogue import CATALOGUE, generate
from polvet.domains.instance import Instance

__all__ = ["CATALOGUE", "Instance", "generate"]
