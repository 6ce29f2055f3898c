"""The frame of every page: title, navigation, breadcrumbs, assets and content policy."""

from __future__ import annotations

from rlreport import __version__
from rlreport.bake.addresses import Addresses
from rlreport.bake.context import PageContext
from rlreport.bake.views import Link, Shell

NAMES = {"overview": "Overview", "prompts": "Prompts", "tokens": "Tokens", "data": "Data"}
"""Pages of the main navigation."""

APART = {"checks": "How the verdict is made"}
"""Pages that others link to."""


def shell(
    kind: str,
    context: PageContext,
    addresses: Addresses,
    *,
    root: str = "",
    step: int | None = None,
    assets: dict[str, str] | None = None,
    csp: str = "",
) -> Shell:
    """The frame of one page.

    Args:
        kind: ``overview``, ``step``, ``prompts``, ``tokens``, ``data`` or ``checks``.
        context: what every page shares.
        addresses: addresses as seen from the page.
        root: the report's root as seen from the page.
        step: the step of a step page.
        assets: logical name -> file below the root.
        csp: Content-Security-Policy.
    """
    names = {**NAMES, **APART}
    nav = [(key, Link(name, addresses.page(key))) for key, name in NAMES.items()]
    crumbs = [Link(context.run, addresses.page("overview"))]
    if kind == "step":
        crumbs.append(Link(f"Step {step}", ""))
    elif kind != "overview":
        crumbs.append(Link(names[kind], ""))
    name = f"Step {step}" if kind == "step" else names[kind]
    return Shell(
        title=context.run if kind == "overview" else f"{name} · {context.run}",
        run=context.run,
        kind=kind,
        root=root,
        nav=nav,
        crumbs=crumbs,
        assets={key: root + path for key, path in (assets or {}).items()},
        csp=csp,
        generator=f"rlreport {__version__}",
        stamp=context.stamp,
    )
