# Where the parser in rows.hpp puts tokens.

cdef extern from "numbers.hpp" namespace "rlreport":
    const int SMALLEST_POWER, POWERS
    uint64_t powers_of_five[1][2]

    cdef cppclass Number:
        double value
        int64_t integer
        cbool is_integer


cdef extern from "strings.hpp" namespace "rlreport":
    cdef cppclass Span:
        const char* at
        size_t size
        cbool escaped

    cdef cppclass CRawTable "rlreport::RawTable":
        int32_t find(const char* p, size_t size, uint64_t key)
        void put(const char* p, size_t size, int32_t number) except +


cdef extern from "rows.hpp" namespace "rlreport":
    int ARRAYS
    enum Kind:
        EXTRA, STEP, PROMPT, RESPONSE, REFERENCE, GROUP, FINISH, COUNTED, IGNORED, ODD, TOKENS
        ARRAY, REWARD
    enum class Found:
        ROW, REFUSED, NO_ROOM, MANY_KEYS
    enum class Type:
        NOTHING, NUMBER, BOOLEAN, TEXT, OTHER

    cdef cppclass Value:
        Type type
        Number number
        Span text

    cdef cppclass KeyedValue:
        size_t key
        Value value

    cdef cppclass Tokens:
        double* columns[7]
        int32_t* ids
        size_t room, used
        cbool begun[7]

    cdef cppclass Token:
        Span text
        uint64_t key

    cdef cppclass Unknown:
        Token token
        size_t place

    cdef cppclass CRow "rlreport::Row":
        Value step, prompt, response, reference, group, finish
        Value rewards[4]
        vector[KeyedValue] extras, counted
        vector[Value] ignored
        vector[Span] nested
        vector[Unknown] unknown
        cbool has_array[7]
        cbool has_tokens, uneven
        int64_t size
        vector[cstring] keys
        void add_key(const char* name, size_t size, int kind) except +
        void forget_keys()
        Found read(const char* p, const char* end, const Tokens& into, const CRawTable& table) except +


_FIRST_ROOM = 1 << 15
_MOST_KEPT = 1 << 20


cdef class RawTable:
    """Numbers of token strings by their raw JSON; belongs to a vocabulary."""

    cdef CRawTable table


cdef object _array_of(vector[int64_t]& values):
    found = np.empty(values.size(), dtype=np.int64)
    cdef int64_t[::1] view = found
    cdef size_t i
    for i in range(values.size()):
        view[i] = values[i]
    return found


cdef class TokenBuffers:
    """The token arrays of a batch side by side, in memory that the next batch uses again."""

    cdef Tokens tokens
    cdef list arrays
    cdef object ids
    cdef vector[int64_t] rows, lengths, named, nan_values
    cdef int64_t carried[7]
    cdef int64_t texts

    def __cinit__(self):
        self.arrays = [None] * ARRAYS
        self._allocate(_FIRST_ROOM)
        self._clear()

    cdef int _allocate(self, size_t room) except -1:
        cdef double[::1] column
        cdef int32_t[::1] ids
        cdef size_t used = self.tokens.used
        for i in range(ARRAYS):
            array = np.empty(room)
            if used and self.tokens.begun[i]:
                array[:used] = self.arrays[i][:used]
            self.arrays[i] = array
            column = array
            self.tokens.columns[i] = &column[0]
        array = np.empty(room, dtype=np.int32)
        if used:
            array[:used] = self.ids[:used]
        self.ids = array
        ids = array
        self.tokens.ids = &ids[0]
        self.tokens.room = room
        return 0

    cdef int _clear(self) except -1:
        cdef int i
        self.tokens.used = 0
        for i in range(ARRAYS):
            self.tokens.begun[i] = False
            self.carried[i] = 0
        self.texts = 0
        self.rows.clear()
        self.lengths.clear()
        self.named.clear()
        self.nan_values.clear()
        return 0

    cdef int grow(self, size_t least) except -1:
        """Make room for so many more tokens."""
        cdef size_t room = 2 * self.tokens.room
        while room - self.tokens.used < least:
            room *= 2
        return self._allocate(room)

    cdef int settle(
        self, int64_t row, int64_t size, const cbool* has, cbool has_tokens, int64_t odd
    ) except -1:
        """Keep what was put behind the used part as the tokens of a row, of which there are size."""
        cdef int i
        cdef size_t k, used = self.tokens.used, stop = used + <size_t>size
        if size < 0:
            return 0
        if stop > self.tokens.room:
            raise ValueError("a row beyond its buffers")
        for i in range(ARRAYS):
            if has[i]:
                if not self.tokens.begun[i]:
                    for k in range(used):
                        self.tokens.columns[i][k] = NAN
                    self.tokens.begun[i] = True
                self.carried[i] += 1
            elif self.tokens.begun[i]:
                for k in range(used, stop):
                    self.tokens.columns[i][k] = NAN
        if has_tokens:
            self.texts += 1
        else:
            for k in range(used, stop):
                self.tokens.ids[k] = -1
        self.tokens.used = stop
        self.rows.push_back(row)
        self.lengths.push_back(size)
        self.named.push_back(has_tokens)
        self.nan_values.push_back(odd)
        return 0

    def append(self, int64_t row, Py_ssize_t size, const int32_t[::1] ids, list columns):
        """Add the tokens of a row that was read another way.

        Args:
            row: its number in the batch.
            size: how many tokens it has.
            ids: their numbers, at least as many; None without token strings.
            columns: bytes of float64 for each field of TOKEN_ARRAYS, or None.
        """
        cdef cbool has[7]
        cdef const double[::1] values
        cdef double* out
        cdef Py_ssize_t i, k
        cdef int64_t odd = 0
        if size < 0 or len(columns) != ARRAYS:
            raise ValueError("not the arrays of a row")
        if self.tokens.room - self.tokens.used < <size_t>size:
            self.grow(size)
        for i in range(ARRAYS):
            has[i] = columns[i] is not None
            if not has[i] or not size:
                continue
            values = np.frombuffer(columns[i], dtype=np.float64)
            if values.shape[0] < size:
                raise ValueError("not one value a token")
            out = self.tokens.columns[i] + self.tokens.used
            for k in range(size):
                out[k] = values[k] if isfinite(values[k]) else NAN
                odd += not isfinite(values[k])
        if ids is not None:
            if ids.shape[0] < size:
                raise ValueError("not one number a token")
            for k in range(size):
                self.tokens.ids[self.tokens.used + k] = ids[k]
        self.settle(row, size, has, ids is not None, odd)

    def take(self):
        """Return what was added, and start again.

        The arrays of floats are overwritten by the next row that is added.

        Returns:
            rows of the batch, tokens of each, numbers of all, which rows have any, the arrays
            by the place of their field (None for those of no row), values of each row that were
            not finite, rows that carried each array, and rows that carried token strings.
        """
        used = self.tokens.used
        arrays = [
            self.arrays[i][:used] if self.tokens.begun[i] else None for i in range(ARRAYS)
        ]
        carried = [self.carried[i] for i in range(ARRAYS)]
        taken = (
            _array_of(self.rows), _array_of(self.lengths), self.ids[:used].copy(),
            _array_of(self.named).astype(bool), arrays, _array_of(self.nan_values), carried,
            self.texts,
        )
        self._clear()
        if self.tokens.room > _MOST_KEPT:
            self._allocate(_FIRST_ROOM)
        return taken
