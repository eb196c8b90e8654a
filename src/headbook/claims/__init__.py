"""The ledger of published claims, intervals, verdicts, the scorecard."""
