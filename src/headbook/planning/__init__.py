"""Before and beside the trainings: which models there are, costs, packs, training by name."""
