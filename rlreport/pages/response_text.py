"""Responses in lists: without a beginning that they share, and with their end if it was cut off."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from rlreport.pages.listed import PromptText

# Characters of the beginning and of the end of a response that was cut off, see ``CUT_OFF`` of
# ``pages.presets``. Twins of those in static/js/list/text-parts.js
HEAD_CHARS = 60
END_CHARS = 59


class ResponseText(PromptText):
    """A response in a list; if it ``is_cut``, its middle is hidden, not its end."""

    __slots__ = ("is_cut",)
    is_cut: bool

    @classmethod
    def of(cls, text: str, prefixes: Sequence[str], *, is_cut: bool) -> ResponseText:
        response = cls(text, prefixes)
        response.is_cut = is_cut and len(response.rest) > HEAD_CHARS + END_CHARS
        return response

    @property
    def brief(self) -> str:
        """The text without what is hidden: at most LISTED_CHARS if its middle is."""
        text = super().brief.lstrip()
        if not self.is_cut:
            return text
        return f"{text[:HEAD_CHARS]}…{text[-END_CHARS:]}"

    def __html__(self) -> str:
        if not self.is_cut:
            return super().__html__()
        return middle_hidden(self.shared, self.rest)


def middle_hidden(shared: str, rest: str) -> str:
    """Return markup that shows the beginning of ``rest`` in a line, and its end in a second one."""
    parts = (
        ("shared", shared),
        ("head", rest[:HEAD_CHARS]),
        ("middle", rest[HEAD_CHARS:-END_CHARS]),
    )
    spans = Markup().join(
        Markup('<span class="{}">{}</span>').format(name, text)
        for name, text in parts
        if text
    )
    end = Markup('<span class="end"><span>{}</span></span>')
    return spans + end.format(rest[-END_CHARS:])
