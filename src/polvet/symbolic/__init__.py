"""A model made logical: operators as linear data over the integers, boxes and linear rows. It solves nothing."""
