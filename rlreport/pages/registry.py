"""The pages about the whole run."""

from __future__ import annotations

from rlreport.pages import (
    data,
    flips,
    grader,
    overview,
    prompts,
    responses,
    terms,
    texts,
)

# In the order of the navigation
PAGES = (
    overview.PAGE,
    responses.PAGE,
    prompts.PAGE,
    grader.PAGE,
    flips.PAGE,
    texts.PAGE,
    data.PAGE,
    terms.PAGE,
)
