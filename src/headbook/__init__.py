"""headbook: an executable book on what the heads of multi-head attention do."""

__version__ = "0.1.0"
