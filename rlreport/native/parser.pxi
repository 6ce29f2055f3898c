# Lines to rows: what the parser in rows.hpp found, as Python objects.

_LARGEST_STEP = 2**53


def _fill_powers():
    """Put down the leading 128 bits of the powers of five, those of negative ones rounded up."""
    for index in range(POWERS):
        q = SMALLEST_POWER + index
        five = 5 ** abs(q)
        if q < 0:
            z = (five - 1).bit_length()
            five = 2 ** (2 * z + 128) // five + 1 if q < -27 else 2 ** (z + 127) // five + 1
        size = five.bit_length()
        bits = five >> (size - 128) if size > 128 else five << (128 - size)
        powers_of_five[index][0] = bits >> 64
        powers_of_five[index][1] = bits & 0xFFFFFFFFFFFFFFFF


_fill_powers()


KINDS = {
    "extra": EXTRA, "step": STEP, "prompt": PROMPT, "response": RESPONSE,
    "reference": REFERENCE, "group": GROUP, "finish": FINISH, "counted": COUNTED,
    "ignored": IGNORED, "odd": ODD, "tokens": TOKENS, "array": ARRAY, "reward": REWARD,
}
"""Kinds of fields; those of arrays and of rewards are numbered on from theirs."""


cdef str _text(const Span& span):
    """Decode a string; raises ValueError where it is not strict JSON."""
    if not span.escaped:
        return PyUnicode_DecodeUTF8(span.at, span.size, NULL)
    # With the quotes that stand around it.
    return orjson.loads(PyBytes_FromStringAndSize(span.at - 1, span.size + 2))


cdef class LineParser:
    """Reads lines of native logs, their tokens into buffers; twin of ``FastRows``."""

    cdef CRow row
    cdef TokenBuffers buffers
    cdef RawTable table
    cdef object vocabulary
    cdef dict finish_reasons
    cdef list names
    cdef Py_ssize_t longest_extra

    def __init__(
        self, TokenBuffers buffers not None, RawTable table not None, vocabulary, fields,
        dict finish_reasons, Py_ssize_t longest_extra,
    ):
        """Take what lines are read into.

        Args:
            buffers: for the tokens.
            table: raw token strings that are known.
            vocabulary: numbers those that are not, by ``numbers``.
            fields: (name, kind), with the kinds of KINDS.
            finish_reasons: name to number.
            longest_extra: characters; longer texts are no extras.
        """
        self.buffers = buffers
        self.table = table
        self.vocabulary = vocabulary
        self.finish_reasons = finish_reasons
        self.longest_extra = longest_extra
        self.names = []
        for name, kind in fields:
            raw = name.encode()
            self.row.add_key(PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw), kind)
            self.names.append(name)

    def read(self, bytes data not None, Py_ssize_t start, Py_ssize_t stop):
        """Read the line data[start:stop]; None, and nothing is done, where anything is odd.

        Returns:
            the parts of ``RowValues``, extras with their names, names of fields that are only
            counted, whether it has token strings, and whether its arrays are of unequal length.
            Its tokens wait for ``keep``.
        """
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(data):
            raise ValueError("a line beyond its block")
        cdef const char* first = PyBytes_AS_STRING(data) + start
        cdef const char* end = PyBytes_AS_STRING(data) + stop
        cdef Found found = self.row.read(first, end, self.buffers.tokens, self.table.table)
        if found == Found.MANY_KEYS:
            self.row.forget_keys()
            del self.names[self.row.keys.size():]
            found = self.row.read(first, end, self.buffers.tokens, self.table.table)
        if found == Found.NO_ROOM:
            # A token takes two bytes or more.
            self.buffers.grow((stop - start) // 2 + 1)
            found = self.row.read(first, end, self.buffers.tokens, self.table.table)
        if found != Found.ROW:
            return None
        try:
            return self._values()
        except ValueError:
            return None

    def keep(self, int64_t row):
        """Keep the tokens of the line just read as those of a row of the batch."""
        self.buffers.settle(
            row, self.row.size, &self.row.has_array[0], self.row.has_tokens, 0)
        self.row.size = -1

    cdef tuple _values(self):
        cdef CRow* row = &self.row
        cdef int64_t step = row.step.number.integer
        cdef double rewards[4]
        cdef size_t i
        if not -_LARGEST_STEP <= step <= _LARGEST_STEP:
            return None
        for i in range(4):
            rewards[i] = NAN
            if row.rewards[i].type == Type.NUMBER:
                rewards[i] = row.rewards[i].number.value
        finish = NAN
        if row.finish.type == Type.TEXT:
            finish = self.finish_reasons.get(_text(row.finish.text))
            if finish is None:
                return None
        reference = _text(row.reference.text) if row.reference.type == Type.TEXT else None
        group = None
        if row.group.type == Type.TEXT:
            group = _text(row.group.text)
        elif row.group.type == Type.NUMBER:
            group = row.group.number.integer
        for i in range(row.nested.size()):
            orjson.loads(PyBytes_FromStringAndSize(row.nested[i].at, row.nested[i].size))
        for i in range(row.ignored.size()):
            if row.ignored[i].type == Type.TEXT:
                _text(row.ignored[i].text)
        extras = self._extras() if row.extras.size() else ()
        counted = self._counted() if row.counted.size() else ()
        prompt, response = _text(row.prompt.text), _text(row.response.text)
        if row.unknown.size():
            self._learn()
        values = (
            step, prompt, response, (rewards[0], rewards[1], rewards[2], rewards[3]), reference,
            group, finish,
        )
        return values, extras, counted, row.has_tokens, row.uneven

    cdef list _extras(self):
        cdef size_t i
        cdef Value* value
        cdef list extras = []
        for i in range(self.row.extras.size()):
            name = self._name(self.row.extras[i].key)
            value = &self.row.extras[i].value
            if value.type == Type.NUMBER or value.type == Type.BOOLEAN:
                extras.append((name, value.number.value))
            elif value.type == Type.TEXT:
                text = _text(value.text)
                if len(text) <= self.longest_extra:
                    extras.append((name, text))
        return extras

    cdef list _counted(self):
        cdef size_t i
        cdef Value* value
        cdef list counted = []
        for i in range(self.row.counted.size()):
            value = &self.row.counted[i].value
            if value.type == Type.TEXT:
                _text(value.text)
            counted.append(self._name(self.row.counted[i].key))
        return counted

    cdef str _name(self, size_t key):
        while len(self.names) <= <Py_ssize_t>key:
            self.names.append(None)
        name = self.names[key]
        if name is None:
            name = self.names[key] = PyUnicode_DecodeUTF8(
                self.row.keys[key].data(), self.row.keys[key].size(), NULL)
        return name

    cdef int _learn(self) except -1:
        """Number the token strings that were met for the first time."""
        cdef CRow* row = &self.row
        cdef Tokens* tokens = &self.buffers.tokens
        cdef const Token* token
        cdef size_t i
        cdef int32_t number
        pieces = [
            PyBytes_FromStringAndSize(row.unknown[i].token.text.at, row.unknown[i].token.text.size)
            for i in range(row.unknown.size())
        ]
        strings = orjson.loads(b'["' + b'","'.join(pieces) + b'"]')
        numbers = self.vocabulary.numbers(strings).tolist()
        if len(numbers) != len(pieces):
            raise ValueError("not one number a string")
        for i in range(row.unknown.size()):
            number = numbers[i]
            token = &row.unknown[i].token
            if self.table.table.find(token.text.at, token.text.size, token.key) < 0:
                self.table.table.put(token.text.at, token.text.size, number)
            tokens.ids[tokens.used + row.unknown[i].place] = number
        return 0
