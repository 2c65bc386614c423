"""Policies: named inputs to one score per label, loaded from what people train with; knows no model and no run."""
