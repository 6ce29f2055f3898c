"""What of a specification is drawn on paper: all but what serves the reader's hand."""

from __future__ import annotations

from rlreport.draw.layout import Spec, copied

INTERACTION = "interaction"
"""Layers whose name starts so only serve the pointer; they are not baked."""


def still(spec: Spec) -> Spec:
    """The specification without what only serves the reader's hand: hover, brushes, switches.

    A switch (a parameter bound to an input) goes with all that refers to it: transforms of
    layers, and ``domainMin`` and ``domainMax``, which only override a scale's ``domain``.
    """
    kept = copied({key: value for key, value in spec.items() if key != "params"})
    switches = [param["name"] for param in spec.get("params", []) if "bind" in param]
    layers = [x for x in kept["layer"] if not x.get("name", "").startswith(INTERACTION)]
    for layer in layers:
        if switches:
            layer["transform"] = [
                step
                for step in layer.get("transform", [])
                if not any(switch in step.get("calculate", "") for switch in switches)
            ]
            for channel in ("x", "y"):
                scale = layer["encoding"].get(channel, {}).get("scale") or {}
                scale.pop("domainMin", None)
                scale.pop("domainMax", None)
    return {**kept, "layer": layers}
