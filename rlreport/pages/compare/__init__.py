"""The page of a comparison by subject: view, settings, guardrails, prompts, texts."""
