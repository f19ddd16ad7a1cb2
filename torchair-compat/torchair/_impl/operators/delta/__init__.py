"""Gated delta rules: linear attention with a state that decays and is corrected."""
