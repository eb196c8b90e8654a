"""Training: schedule, checkpoints, the loop, scoring."""
