"""Where computing meets the run store: trained models, parses, measured heads."""
