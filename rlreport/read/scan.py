"""The first pass over splits: lines to rows, rows to figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlreport.memory import give_back
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.collector import Collector
from rlreport.read.lines import BOM, DAMAGED, Block, line_blocks, reason_of
from rlreport.read.marks import Flaw, Place
from rlreport.read.merge import merge
from rlreport.read.partial import Partial, Segment
from rlreport.read.row_writer import Prompts
from rlreport.read.rows import RowReader
from rlreport.read.splits import Split
from rlreport.read.tolerant import RowError, load_object

_END = 2**62
_TOO_LONG = "longer than {:,} bytes (--max-line)"
_BATCH_BYTES = 12 << 20
_BATCH_ROWS = 16384
_MOST_STRINGS = 1 << 19


def scan(split: Split, options: ReadOptions, figures: FigureOptions) -> Partial:
    """Scan one split."""
    scanner = Scanner(options, figures)
    scanner.add(split)
    return scanner.partial()


class Scanner:
    """Scans splits one after the other into one partial.

    Many splits in one process cost less than a partial for each.
    """

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self._options = options
        self._figures = figures
        self._earlier: list[Partial] = []
        self._collector = Collector(options, figures)
        self._prompts = Prompts(options)

    def add(self, split: Split, advanced: Callable[[int], None] | None = None) -> None:
        """Scan a split.

        Args:
            split: what to read.
            advanced: called with the number of bytes read since the last call.
        """
        if len(self._collector.vocabulary) > _MOST_STRINGS:
            # Words never end: start afresh with what the tables need of them.
            self._earlier = [merge([*self._earlier, self._collector.partial()], spend=True)]
            self._collector = Collector(self._options, self._figures)
        scan = _SplitScan(split, self._options, self._collector, self._prompts)
        scan.run(advanced or (lambda _: None))

    def partial(self) -> Partial:
        """Return what was found in all splits; the scanner starts afresh then."""
        # Of batches, then of the collector: two processes are at their largest here.
        give_back()
        last = self._collector.partial()
        found = merge([*self._earlier, last], spend=True) if self._earlier else last
        self._collector, self._earlier = Collector(self._options, self._figures), []
        give_back()
        return found


class _SplitScan:
    """Reads one split into a collector, counting its lines."""

    def __init__(
        self, split: Split, options: ReadOptions, collector: Collector, prompts: Prompts
    ) -> None:
        self._split = split
        self._longest = options.max_line
        self._collector = collector
        self._reader = RowReader(split.file, options, prompts)
        self._lines = self._filled = 0

    def run(self, advanced: Callable[[int], None]) -> None:
        split, collector = self._split, self._collector
        rows, flaws = collector.rows, collector.flaws
        if split.format.container == "lines":
            read = pending = 0
            for block in line_blocks(split, self._longest):
                self._read_block(block)
                pending += len(block.data)
                if pending >= _BATCH_BYTES or len(self._reader.batch.rows) >= _BATCH_ROWS:
                    collector.add(self._reader.take(), split.file)
                    pending = 0
                if split.stop is not None:
                    advanced(block.stop)
                    read += block.stop
            collector.add(self._reader.take(), split.file)
            # Bytes of an archive, and of lines that lie over a cut, are settled at the end.
            advanced(split.weight - read)
        else:
            self._read_container()
            advanced(split.weight)
        stop = -1 if split.stop is None else split.stop
        found = (collector.rows - rows, collector.flaws - flaws)
        collector.add_segment(
            Segment(split.file, split.start, stop, self._lines, self._filled, *found)
        )

    def _read_block(self, block: Block) -> None:
        native = self._split.format.reader is None
        data = block.data
        for start, stop in block.spans():
            self._lines += 1
            offset = block.offset + start
            # One at a time: a line's memory is used again for the next one while it is warm.
            line = data[start:stop]
            if not line or line.isspace():
                continue
            self._filled += 1
            try:
                if len(line) > self._longest:
                    raise RowError(_TOO_LONG.format(self._longest))
                if native and offset:
                    self._reader.read_line(self._lines, offset, line)
                elif native:
                    self._read_first_line(line)
                else:
                    self._read_object(load_object(line.removeprefix(BOM))[0], offset, len(line))
            except RowError as error:
                last = offset + len(line) == block.offset + block.stop
                self._flaw(offset, str(error), torn=last and block.unterminated)
        if block.too_long:
            self._lines += 1
            self._filled += 1
            self._flaw(block.offset, _TOO_LONG.format(self._longest))
        if block.damage is not None:
            self._lines += 1
            self._filled += 1
            self._flaw(_END, f"cannot be read further: {block.damage}", torn=True)

    def _read_first_line(self, line: bytes) -> None:
        """Read the line at the start of the file, where a byte order mark may stand."""
        mark = len(BOM) if line.startswith(BOM) else 0
        self._reader.read_line(self._lines, mark, line[mark:])

    def _read_object(self, obj: dict[str, Any], offset: int, length: int) -> None:
        """Read the rows of an object of another format; one bad row costs no other."""
        split = self._split
        rows = split.format.rows(obj, split.source.name, self._lines, offset)
        place = Place(split.file, offset, self._lines)
        for sub, row in enumerate(rows):
            try:
                self._reader.read_record(row, place, length, sub)
            except RowError as error:
                self._flaw(offset, str(error))

    def _read_container(self) -> None:
        """Read a file that is not lines; an object's index stands for its offset."""
        # Only such files need the formats.
        from rlreport.formats.containers import iterate

        split = self._split
        try:
            with split.source.open() as stream:
                for index, obj in iterate(stream, split.format.container):  # type: ignore[arg-type]
                    self._lines += 1
                    self._filled += 1
                    try:
                        self._read_object(obj, index, 0)
                    except RowError as error:
                        self._flaw(index, str(error))
                    if len(self._reader.batch.rows) >= _BATCH_ROWS:
                        self._collector.add(self._reader.take(), split.file)
        except (*DAMAGED, ValueError) as error:
            self._flaw(_END, f"cannot be read: {reason_of(error)}")
        self._collector.add(self._reader.take(), split.file)

    def _flaw(self, offset: int, reason: str, *, torn: bool = False) -> None:
        place = Place(self._split.file, offset, self._lines)
        self._collector.add_flaw(Flaw(place, reason, torn))
