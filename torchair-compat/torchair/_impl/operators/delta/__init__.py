"""Gated delta rules: linear attention with a state that decays and is corrected, and the
causal convolutions of few tokens before it."""
