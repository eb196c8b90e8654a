"""Trainings longer than a screen, one file each, shown on the pages whose tables they made."""
