"""What a training leaves in its folder, whatever was trained."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from headbook.models.transformer import Transformer
from headbook.training import checkpoint


class Left:
    """Read from `folder`; a stage adds its run and its text, and how the model began."""

    folder: Path

    @cached_property
    def curve(self) -> pd.DataFrame:
        """One row a validation: update, tokens, training and validation loss in nats."""
        return pd.read_csv(self.folder / "curve.csv")

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Of the best model on test text, by name; losses in nats a predicted token."""
        return json.loads((self.folder / "scores.json").read_text())

    def untrained(self) -> Transformer:
        """The model before its first update, in eval mode."""
        raise NotImplementedError

    def model(self) -> Transformer:
        """The model with the best validation loss, in eval mode."""
        return self.kept("best.safetensors")

    def kept(self, name: str) -> Transformer:
        """The model of one of its files, in eval mode."""
        model = self.untrained()
        checkpoint.load_model(model, self.folder / name)
        return model
