"""Formulas of all values per token and per response (KL, advantage, …), each in one place."""
