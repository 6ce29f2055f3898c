"""The compiled fast path and loops: the same results, bit for bit, as what they are twins of."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport import native
from rlreport.figures import ragged, token
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Batch
from rlreport.read.bigrams import row_bigrams
from rlreport.read.detection import detect_formats
from rlreport.read.fields import TOKEN_ARRAYS
from rlreport.read.positions import PositionTable
from rlreport.read.rows import RowReader
from rlreport.read.scan import Scanner
from rlreport.read.sources import find_sources
from rlreport.read.splits import plan_splits
from rlreport.read.vocabulary import Vocabulary
from tests.reading import damage

pytestmark = pytest.mark.skipif(native.scan is None, reason="the compiled module is not built")

COMPILED = native.scan
TRICKS = (b"", b"0", b"e", b".", b"-", b",", b'"', b"\\", b"]", b"\xff", b"\n", b" ")
ODD_STRINGS = [
    "",
    "Ġa",
    "\\u0120a",
    "\\ud83c\\udf89",
    "🎉",
    "\\ud800",
    "\\\\",
    '\\"',
    '\\\\\\\\\\"',
    "虾",
    "<pad>",
]
ODD_STRINGS += [
    "</s>",
    "twelve bytes",
    "exactly8",
    "exactly_9",
    "\\n",
    "\\x",
    "\\u12",
    "\x01",
    "a\\u0000",
]
ODD_NUMBERS = [
    "-0.0",
    "0",
    "-0",
    "1e-320",
    "1e308",
    "-2.5E+3",
    "0.00012345678901234567",
    "1.",
    "01",
]
ODD_NUMBERS += [
    "123456789012345678",
    "12345678901234567890",
    "1e999",
    "NaN",
    "null",
    '"0.5"',
    "true",
]
ODD_NUMBERS += [
    "-Infinity",
    "[1.0]",
    "5e-324",
    "0.12345678901234567890123",
    "-1.2345678",
    "40.5",
    "1099511627777",
]


class Without:
    """As if the compiled module were not there."""

    def __enter__(self) -> None:
        native.scan = None  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        native.scan = COMPILED


def partial_of(folder: Path) -> Any:
    """Scan a log in this process."""
    options = ReadOptions(workers=1)
    listing = find_sources([folder])
    found = detect_formats(listing, options, ())
    scanner = Scanner(options, FigureOptions())
    for split in plan_splits(found.sources, found.formats):
        scanner.add(split)
    partial = scanner.partial()
    # Entries come in any order before they are merged.
    table = partial.tokens
    order = np.lexsort((table.tokens, table.bins))
    table.bins, table.tokens = table.bins[order], table.tokens[order]
    table.rows = [None if row is None else row[order] for row in table.rows]
    return partial


def assert_same(one: Any, other: Any, where: str = "partial") -> None:
    """Compare everything inside two results."""
    assert type(one) is type(other), where
    if dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_same(
                getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}"
            )
    elif isinstance(one, dict):
        assert set(one) == set(other), where
        for name in one:
            assert_same(one[name], other[name], f"{where}[{name}]")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, where
        np.testing.assert_array_equal(one, other, where, strict=True)
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for i, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, f"{where}[{i}]")
    else:
        assert one == other or (one != one and other != other), where


def check(data: bytes) -> None:
    """Scan a log both ways."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.jsonl").write_bytes(data)
        compiled = partial_of(Path(folder))
        with Without():
            reference = partial_of(Path(folder))
    assert_same(compiled, reference)


finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.one_of(
    st.floats(-8, 0).map(repr),
    st.floats(-8, 8).map(repr),
    finite.map(repr),
    st.integers(-9, 9).map(str),
)
strings = st.text(max_size=12).map(lambda text: json.dumps(text, ensure_ascii=False)[1:-1])
strings |= st.text(max_size=5).map(lambda text: json.dumps(text)[1:-1])


@st.composite
def line(draw: st.DrawFn) -> bytes:
    """A row as raw JSON, most of it ordinary."""
    odd = draw(st.integers(0, 5)) == 0
    number = numbers | st.sampled_from(ODD_NUMBERS) if odd else numbers
    string = strings | st.sampled_from(ODD_STRINGS if odd else ODD_STRINGS[:5])
    quoted = string.map(lambda text: f'"{text}"')
    size = draw(st.integers(0, 9))
    fields = {
        "step": draw(st.integers(0, 3).map(str)),
        "prompt": draw(quoted),
        "response": draw(quoted),
        "reward": draw(number),
    }
    arrays = [("response_tokens", quoted), *((name, number) for name in TOKEN_ARRAYS)]
    for name, values in draw(st.lists(st.sampled_from(arrays), unique_by=lambda array: array[0])):
        own = max(0, size + draw(st.sampled_from([0, 0, 0, 0, 1, -1]) if odd else st.just(0)))
        fields[name] = f"[{','.join(draw(st.lists(values, min_size=own, max_size=own)))}]"
    further = {
        "ref_reward": number | st.just("null"),
        "ref_response": quoted | st.just("null"),
        "group_id": quoted | st.integers(0, 5).map(str),
        "finish_reason": st.sampled_from(['"stop"', '"length"', '"odd"', "null", "3"]),
        "stop_reason": st.sampled_from(['"eos"', "null"]),
        "token_ids": st.sampled_from(["[1,2]", "null", "[1,", '"a"']),
        "prompt_token_ids": st.sampled_from(["[]", "[1, 2]", '"\\ud800"']),
        "extra": number | quoted | st.sampled_from(['{"a":[1,"]"]}', "[[", "false", "{]"]),
        "größe": number,
        "odd\\u0061": number,
        "step": st.just("1"),
    }
    names = draw(st.lists(st.sampled_from(list(further)), unique=True, max_size=4))
    pairs = [
        *fields.items(),
        *((name, draw(further[name])) for name in names if odd or name != "step"),
    ]
    if draw(st.booleans()):
        pairs = draw(st.permutations(pairs))
    colon, comma = draw(st.sampled_from([(":", ","), (": ", ", "), (" :\t", "\r ,")]))
    text = comma.join(f'"{name}"{colon}{value}' for name, value in pairs)
    return b"{" + text.encode(errors="surrogatepass") + b"}"


@pytest.mark.untraced
@given(st.lists(line(), min_size=1, max_size=6))
def test_any_rows_come_to_the_same(lines: list[bytes]) -> None:
    check(b'{"step":0,"prompt":"a","response":"b","reward":1}\n' + b"\n".join(lines) + b"\n")


@pytest.mark.parametrize("run", ["ppo_healthy", "grpo_math", "eval_poem_task"])
def test_real_runs_come_to_the_same(shared_data: Path, run: str) -> None:
    compiled = partial_of(shared_data / run)
    with Without():
        reference = partial_of(shared_data / run)
    assert_same(compiled, reference)


def parser_of() -> tuple[Any, Any, Vocabulary]:
    """A parser by itself, with its buffers and its vocabulary."""
    vocabulary = Vocabulary()
    reader = RowReader(0, ReadOptions(), vocabulary)
    assert reader._compiled is not None and reader._flat is not None
    return reader._compiled._parser, reader._flat.buffers, vocabulary


def bits(value: float) -> bytes:
    """A float to the last bit."""
    return struct.pack("<d", value)


def assert_as_json_has_it(parsed: Any, taken: Any, strings: list[str], obj: dict[str, Any]) -> None:
    """What the parser accepted is what ``json.loads`` makes of the line."""
    step, prompt, response, rewards, reference, group, _ = parsed[0]
    assert (step, prompt, response) == (obj["step"], obj["prompt"], obj["response"])
    assert (reference, group) == (obj.get("ref_response"), obj.get("group_id"))
    assert bits(rewards[0]) == bits(float(obj["reward"]))
    rows, lengths, ids, _, columns, _, _, _ = taken
    size = int(lengths[0]) if len(rows) else 0
    if tokens := obj.get("response_tokens"):
        assert [strings[i] for i in ids.tolist()] == tokens[:size]
    for name, column in zip(TOKEN_ARRAYS, columns, strict=True):
        if values := obj.get(name):
            assert column.tobytes() == np.array([float(v) for v in values[:size]]).tobytes()


@pytest.mark.untraced
@pytest.mark.parametrize("run", ["ppo_healthy", "grpo_math"])
def test_what_is_accepted_of_damaged_lines_is_json_of_the_same_value(
    shared_data: Path, run: str
) -> None:
    parser, buffers, vocabulary = parser_of()
    lines = next((shared_data / run).glob("*.jsonl")).read_bytes().splitlines()[:40]
    rng = random.Random(run)
    accepted = 0
    for _ in range(4000):
        data = bytearray(rng.choice(lines))
        for _ in range(rng.randint(0, 2)):
            damage(data, rng, TRICKS)
        raw = bytes(data)
        # Where it lies in a block is nothing to a line.
        found = parser.read(b"12" + raw + b"34", 2, 2 + len(raw))
        if found is None:
            continue
        accepted += 1
        parser.keep(0)
        assert_as_json_has_it(found, buffers.take(), vocabulary.strings, json.loads(raw))
    assert accepted > 500


def test_numbers_are_exactly_rounded() -> None:
    parser, buffers, _ = parser_of()
    rng = random.Random(7)
    texts = []
    for _ in range(30_000):
        value = struct.unpack("<d", rng.randbytes(8))[0]
        if not math.isfinite(value) or 0 < abs(value) < 3e-308:
            continue
        near = rng.gauss(0, 1) * 10.0 ** rng.randint(-9, 6)
        texts += [
            repr(value),
            repr(near),
            f"{near:.{rng.randint(1, 25)}f}",
            f"{near:.{rng.randint(0, 25)}e}",
        ]
        texts += [
            str(rng.randrange(-(10**18) + 1, 10**18)),
            f"{rng.getrandbits(64)}e{rng.randint(-70, 70)}",
        ]
    # Half way between two floats, and just beside it.
    for exponent in (-20, -3, 0, 1, 30):
        half = (2**53 + 1) * 10**3
        texts += [f"{half + d}e{exponent - 3}" for d in (-1, 0, 1)]
    for start in range(0, len(texts), 997):
        some = texts[start : start + 997]
        row = '{"step":1,"prompt":"","response":"","reward":0,"values":[%s]}'
        raw = (row % ",".join(some)).encode()
        assert parser.read(raw, 0, len(raw)) is not None
        parser.keep(0)
        column = buffers.take()[4][TOKEN_ARRAYS.index("values")]
        assert column.tobytes() == np.array([float(json.loads(text)) for text in some]).tobytes()


def ragged_rows(seed: int) -> tuple[Any, Any, Any]:
    """Two flat arrays with missing values and their offsets."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([0, 1, 2, 7, 8, 9, 31, 32, 33, 129, 300, 1100], 30)
    offsets = ragged.offsets_of(lengths)
    size = int(offsets[-1])
    one, other = rng.normal(0, 3, size), rng.normal(0, 1e3, size)
    for values in (one, other):
        values[rng.integers(0, size, 40)] = rng.choice(
            [np.nan, np.inf, -np.inf, 1e14, -0.0, 8.0], 40
        )
    one[offsets[5] : offsets[6]] = np.nan
    return one, other, offsets


@pytest.mark.parametrize("seed", range(5))
def test_loops_give_what_numpy_gives(seed: int) -> None:
    one, other, offsets = ragged_rows(seed)
    ids = np.random.default_rng(seed).integers(0, 9, len(one)).astype(np.int32)
    hashes = np.arange(9, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)

    def all_figures() -> list[Any]:
        table = PositionTable()
        table.add(offsets, one, other)
        counts, share, distinct, owners = row_bigrams(ids, offsets, hashes)
        order = np.lexsort((distinct, owners))
        return [
            ragged.finite_sums(one, offsets),
            ragged.row_moments(one, offsets),
            ragged.row_first_maxima(one, offsets),
            token.gae(one, other, offsets, 0.99, 0.95),
            token.gae(one, other, offsets, 1.0, 1.0),
            [table.counts, table.sums],
            [counts, share, distinct[order], owners[order]],
        ]

    with np.errstate(all="ignore"):
        compiled = all_figures()
        with Without():
            reference = all_figures()
    assert_same(compiled, reference)


def test_sizes_are_not_taken_on_trust() -> None:
    assert native.scan is not None
    floats, ids = np.zeros(4), np.array([0, 1, 2, 9], dtype=np.int32)
    good, bad = np.array([0, 4]), np.array([0, 9])
    tables = np.zeros((4, 8), dtype=np.int64), np.zeros((4, 10), dtype=np.int64)
    empty = (None, None, None, None, None)
    for call in (
        lambda scan: scan.finite_sums(floats, bad),
        lambda scan: scan.row_moments(floats, np.array([2, 0, 4])),
        lambda scan: scan.row_extremes(floats, np.array([-1, 4])),
        lambda scan: scan.gae(floats, floats[:2], good, 1.0, 1.0),
        lambda scan: scan.distinct_bigrams(ids, good, np.zeros(4, dtype=np.uint64)),
        lambda scan: scan.sum_tokens(np.array([0]), good, ids, None, *empty, *tables),
        lambda scan: scan.sum_tokens(np.array([1]), good, ids, None, *empty, *tables),
        lambda scan: scan.sum_tokens(np.array([0]), good, ids, floats[:2], *empty, *tables),
        lambda scan: scan.TokenBuffers().append(0, 5, ids, [None] * len(TOKEN_ARRAYS)),
        lambda scan: parser_of()[0].read(b"{}", 0, 3),
    ):
        with pytest.raises(ValueError):
            call(native.scan)


def test_a_row_longer_than_all_buffers_and_more_keys_than_are_kept() -> None:
    size = 100_000
    long = {"response_tokens": [f"t{i % 7}" for i in range(size)], "values": [0.5] * size}
    rows = [
        {"step": 1, "prompt": "p", "response": "r", "reward": 1.0, f"k{i}": i} for i in range(200)
    ]
    rows.insert(3, {**rows[0], **long})
    rows.append({**rows[0], **{f"many{i}": i for i in range(100)}})
    check("".join(json.dumps(row) + "\n" for row in rows).encode())


@pytest.mark.untraced
def test_a_report_is_the_same_bytes_without_it(tmp_path: Path) -> None:
    logs = Path(__file__).resolve().parents[1] / "sample_logs" / "reward_hacking"
    program = (
        "import sys; from rlreport import native; native.scan = native.scan if {} else None; "
        "from rlreport.cli import main; main()"
    )
    for compiled in (True, False):
        command = [sys.executable, "-c", program.format(compiled), "build", str(logs)]
        subprocess.run([*command, "-o", str(tmp_path / str(compiled)), "--quiet"], check=True)
    places = sorted(p for p in (tmp_path / "True").rglob("*") if p.is_file())
    assert len(places) > 40
    for place in places:
        other = tmp_path / "False" / place.relative_to(tmp_path / "True")
        assert place.read_bytes() == other.read_bytes(), place.name


def test_without_it_batches_are_lists() -> None:
    with Without():
        reader = RowReader(0, ReadOptions(), Vocabulary())
        assert reader.batch == Batch()
