"""Which answers of tools hold nothing, and which only look so."""

import pytest

from rlreport.text.answers import is_empty_answer

NOTHING = [
    "",
    " \n",
    "[]",
    "{}",
    "null",
    "None",
    '""',
    "(no output)",
    '{"results": []}',
    '{"query": "a b", "results": [], "total": 0}',
    '{"result": null, "error": null}',
    "[[]]",
    "No results found.",
    "No relevant documents were found",
    "No results found for 'cats'.",
    "Found 0 results",
    "Nothing was found",
    "There are no matches.",
    "Not found",
    "没有找到相关结果",
    "未找到相关结果。",
    "抱歉，没有找到相关信息",
    "未查询到上海的天气信息",
    "暂无数据",
    "查无结果",
    "结果为空",
]
SOMETHING = [
    "OK",
    "Success",
    "File written.",
    "已保存",
    "true",
    "no",
    "0",
    '{"status": "ok"}',
    '{"success": true}',
    '{"count": 0}',
    "[0, 0]",
    '{"name": "X", "aliases": []}',
    '{"answer": "no"}',
    "No. The capital is Lisbon.",
    "No output file was written",
    "No errors found.",
    "没有找到任何问题",
    "没有人知道答案是什么，但报告称有三个原因",
    "No results found. " + "But here is a page about it. " * 10,
    "[" * 150 + "1",
]


@pytest.mark.parametrize("text", NOTHING)
def test_an_answer_that_is_blank_or_tells_of_nothing_is_empty(text):
    assert is_empty_answer(text)


@pytest.mark.parametrize("text", SOMETHING)
def test_an_answer_that_tells_or_does_something_is_not_empty(text):
    assert not is_empty_answer(text)
