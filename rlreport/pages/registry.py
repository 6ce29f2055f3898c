"""The pages about the whole run."""

from __future__ import annotations

from rlreport.pages import data, overview, prompts, responses, tokens

# In the order of the navigation
PAGES = (
    overview.PAGE,
    responses.PAGE,
    prompts.PAGE,
    tokens.PAGE,
    data.PAGE,
)
