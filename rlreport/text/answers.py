"""Tell answers of tools that hold nothing: blank, empty JSON, or a sentence that says so."""

from __future__ import annotations

import json
import re

# A longer answer says more than that there is nothing
_LONGEST = 200

# Words of JSON and programming languages for nothing
_NOTHING = frozenset({"null", "none", "nil", "undefined", "nan", "n/a", "empty"})

# Keys whose values tell of a query, not of what it found
_ABOUT_QUERY = frozenset(
    {"query", "q", "keyword", "keywords", "status", "success", "ok", "code", "page"}
)

# What is looked for, and the sentences in which tools say that they found none of it
_THINGS = (
    r"(?:results?|match(?:es)?|documents?|articles?|records?|entr(?:y|ies)|items?|rows?|hits?"
    r"|pages?|data|information|output|content|answers?|files?)"
)
_SENTENCES = re.compile(
    rf"""(?:sorry,?\s+)?
    (?: (?:there\ (?:are|were|is|was)\ )?no\ (?:[\w-]+\ ){{0,2}}{_THINGS}
        (?:\ (?:were|was|are|is))?(?:\ (?:found|available|returned|retrieved|exists?))?
      | (?:found|returned)\ (?:0|no|zero)\ (?:[\w-]+\ ){{0,2}}{_THINGS}
      | (?:0|zero)\ {_THINGS}(?:\ (?:found|returned))?
      | nothing\ (?:was\ )?(?:found|returned|matched)
      | (?:could|did)\ not\ find\ (?:any|anything)\b.*
      | (?:empty|blank)\ (?:results?|response|list|answer|output|set)
      | not\ found )
    (?:\ (?:for|matching|in|with|from|about|on)\b.*)?
    | (?:很?抱歉|对不起)?[,，\ ]*
    (?!.*(?:错误|问题|异常|漏洞))  # that none of these was found is good news
    (?: (?:没有?|未能?|无法|查?无法)(?:查询|检索|搜索|查找|查|搜|找|获取)到?.{{0,40}}
      | (?:没有|暂无|查无|无)(?:任何|相关|匹配|符合条件|搜索|查询|检索|可用|的)*
        (?:结果|数据|信息|内容|记录|资料|答案|文档)
      | 找不到.{{0,40}} | (?:查询|检索|搜索|返回)?(?:结果|内容|数据)?为空 )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
# Signs around such a sentence
_AROUND = " \t\r\n.!。！,，;；:：\"'`“”‘’()（）[]【】<>《》*-"


def is_empty_answer(text: str) -> bool:
    """Return whether a tool's answer is blank, empty JSON, or says that nothing was found.

    JSON is empty if it has lists, objects, texts or nulls, and all of these are; numbers, and what
    only tells of the query, do not count: ``{"query": "a", "results": [], "total": 0}``. Sentences
    are those of English and Chinese. "OK" and the like say that something was done.
    """
    if len(text) > _LONGEST:
        return not text.strip()
    plain = text.strip()
    if plain[:1] in ("[", "{"):
        try:
            if _holds_nothing(json.loads(plain)):
                return True
        except (ValueError, RecursionError):
            pass
    plain = plain.strip(_AROUND).lower()
    return not plain or plain in _NOTHING or bool(_SENTENCES.fullmatch(plain))


def _holds_nothing(value: object) -> bool:
    """Return whether parsed JSON has places for something, and nothing in any of them."""
    if isinstance(value, dict):
        if not value:
            return True
        found = [part for key, part in value.items() if key.lower() not in _ABOUT_QUERY]
        return _are_empty(found)
    if isinstance(value, list):
        return not value or _are_empty(value)
    return value is None or (isinstance(value, str) and not value.strip())


def _are_empty(values: list[object]) -> bool:
    """Return whether values other than numbers hold nothing, and there are some."""
    places = [value for value in values if not isinstance(value, int | float)]
    return bool(places) and all(map(_holds_nothing, places))
