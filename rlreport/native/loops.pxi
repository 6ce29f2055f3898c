# Loops over the tokens of many rows: their arguments checked.

cdef extern from "loops.hpp" namespace "rlreport":
    const size_t SLOTS, RARE

    cdef cppclass TokenSources:
        const double *kl
        const double *ratio
        const double *prob
        const double *ref_prob
        const double *value
        const double *returns

    void c_finite_sums "rlreport::finite_sums"(
        const double* flat, const int64_t* offsets, size_t rows, double* counts, double* sums) except +
    void c_moments "rlreport::moments"(
        const double* flat, const int64_t* offsets, size_t rows, double* counts, double* means,
        double* squares) except +
    void c_extremes "rlreport::extremes"(
        const double* flat, const int64_t* offsets, size_t rows, double* smallest, double* largest,
        double* position)
    void c_gae "rlreport::gae"(
        const double* rewards, const double* values, const int64_t* offsets, size_t rows,
        double gamma, const double* factors, const double* powers, size_t levels, double* out) except +
    int64_t c_sum_tokens "rlreport::sum_tokens"(
        const int64_t* rows, size_t count, const int64_t* offsets, const int32_t* ids,
        const TokenSources& source, int64_t* common, int64_t* rare, size_t size)
    void c_penalty_sums "rlreport::penalty_sums"(
        const double* x, const double* y, const int64_t* offsets, size_t rows, double* out) except +
    void c_add_positions "rlreport::add_positions"(
        const int64_t* offsets, size_t rows, const double* value, const double* returns,
        int64_t* counts, int64_t* sums) except +
    int64_t c_distinct_bigrams "rlreport::distinct_bigrams"(
        const int32_t* ids, const int64_t* offsets, size_t rows, const uint64_t* hashes, size_t size,
        uint64_t* distinct, int64_t* counts) except +


_LEVELS = 7


cdef size_t _checked(const int64_t[::1] offsets, Py_ssize_t size) except? 0:
    """Return the number of rows, once it is sure that they lie inside ``size`` tokens."""
    cdef Py_ssize_t i, last = offsets.shape[0] - 1
    if last < 0 or offsets[0] < 0 or offsets[last] > size:
        raise ValueError("rows beyond their tokens")
    for i in range(last):
        if offsets[i] > offsets[i + 1]:
            raise ValueError("rows that end before they begin")
    return <size_t>last


def finite_sums(const double[::1] flat, const int64_t[::1] offsets):
    """Twin of ``ragged.finite_sums``."""
    cdef size_t rows = _checked(offsets, flat.shape[0])
    cdef double[:, ::1] out = np.empty((2, rows + 1))
    c_finite_sums(&flat[0] if flat.shape[0] else NULL, &offsets[0], rows, &out[0, 0], &out[1, 0])
    found = np.asarray(out)[:, :rows]
    return found[0], found[1]


def row_moments(const double[::1] flat, const int64_t[::1] offsets):
    """Twin of ``ragged.row_moments``."""
    cdef size_t rows = _checked(offsets, flat.shape[0])
    cdef double[:, ::1] out = np.empty((3, rows + 1))
    c_moments(
        &flat[0] if flat.shape[0] else NULL, &offsets[0], rows, &out[0, 0], &out[1, 0], &out[2, 0])
    found = np.asarray(out)[:, :rows]
    return found[0], found[1], found[2]


def row_extremes(const double[::1] flat, const int64_t[::1] offsets):
    """Twin of ``ragged.row_minima`` and ``row_first_maxima``: minima, maxima, their positions."""
    cdef size_t rows = _checked(offsets, flat.shape[0])
    cdef double[:, ::1] out = np.empty((3, rows + 1))
    c_extremes(
        &flat[0] if flat.shape[0] else NULL, &offsets[0], rows, &out[0, 0], &out[1, 0], &out[2, 0])
    found = np.asarray(out)[:, :rows]
    return found[0], found[1], found[2]


def gae(
    const double[::1] rewards, const double[::1] values, const int64_t[::1] offsets,
    double gamma, double lam,
):
    """Twin of ``token.gae``."""
    cdef Py_ssize_t size = min(rewards.shape[0], values.shape[0])
    cdef size_t rows = _checked(offsets, size)
    cdef double[::1] factors = np.empty(_LEVELS)
    cdef double[:, ::1] powers = np.empty((_LEVELS, 32))
    factor = gamma * lam
    for level in range(_LEVELS):
        factors[level] = factor
        np.asarray(powers)[level] = factor ** np.arange(32, 0, -1.0)
        factor = float(factor) ** 32
    cdef double[::1] out = np.empty(size)
    if size:
        c_gae(&rewards[0], &values[0], &offsets[0], rows, gamma, &factors[0], &powers[0, 0],
              _LEVELS, &out[0])
    return np.asarray(out)


cdef const double* _pointer(const double[::1] values, Py_ssize_t size) except? NULL:
    if values is None or size == 0:
        return NULL
    if values.shape[0] != size:
        raise ValueError("not one value a token")
    return &values[0]


def sum_tokens(
    const int64_t[::1] rows, const int64_t[::1] offsets, const int32_t[::1] ids,
    const double[::1] kl, const double[::1] ratio, const double[::1] prob,
    const double[::1] ref_prob, const double[::1] value, const double[::1] returns,
    int64_t[:, ::1] common, int64_t[:, ::1] rare,
):
    """Add the rows of one bin; twin of ``token_bins.bin_sums`` and of adding to ``NumpyBin``.

    Returns how many of them were added before ``rare`` was needed and None.
    """
    cdef Py_ssize_t size = ids.shape[0], i
    cdef size_t count = _checked(offsets, size)
    for i in range(rows.shape[0]):
        if not 0 <= rows[i] < <int64_t>count:
            raise ValueError("no such row")
    if common.shape[1] != <Py_ssize_t>SLOTS or (
        rare is not None and (rare.shape[1] != <Py_ssize_t>RARE or rare.shape[0] != common.shape[0])
    ):
        raise ValueError("not the tables of a bin")
    if size == 0 or rows.shape[0] == 0:
        return rows.shape[0]
    cdef TokenSources source
    source.kl = _pointer(kl, size)
    source.ratio = _pointer(ratio, size)
    source.prob = _pointer(prob, size)
    source.ref_prob = _pointer(ref_prob, size)
    source.value = _pointer(value, size)
    source.returns = _pointer(returns, size)
    cdef int64_t done = -1
    cdef int64_t* others = NULL
    if rare is not None and rare.shape[0]:
        others = &rare[0, 0]
    if common.shape[0]:
        done = c_sum_tokens(
            &rows[0], rows.shape[0], &offsets[0], &ids[0], source, &common[0, 0],
            others, common.shape[0])
    if done < 0:
        raise ValueError("a token beyond the table")
    return done


def penalty_sums(const double[::1] x, const double[::1] y, const int64_t[::1] offsets):
    """Twin of ``measure._penalty``: n and the sums of x, y, xx, xy, yy, float64 (6, rows)."""
    cdef Py_ssize_t size = min(x.shape[0], y.shape[0])
    cdef size_t rows = _checked(offsets, size)
    cdef double[:, ::1] out = np.zeros((6, rows))
    if size:
        c_penalty_sums(&x[0], &y[0], &offsets[0], rows, &out[0, 0])
    return np.asarray(out)


def add_positions(
    const int64_t[::1] offsets, const double[::1] value, const double[::1] returns,
    int64_t[::1] counts, int64_t[:, :, ::1] sums,
):
    """Twin of ``PositionTable.add`` but for the carry."""
    cdef Py_ssize_t size = min(value.shape[0], returns.shape[0])
    cdef size_t rows = _checked(offsets, size)
    if counts.shape[0] != 10 or (sums.shape[0], sums.shape[1], sums.shape[2]) != (3, 2, 10):
        raise ValueError("not the tables of tenths")
    if size:
        c_add_positions(&offsets[0], rows, &value[0], &returns[0], &counts[0], &sums[0, 0, 0])


def distinct_bigrams(const int32_t[::1] ids, const int64_t[::1] offsets, const uint64_t[::1] hashes):
    """Return the distinct bigram hashes of row after row, in any order, and how many each has.

    Twin of ``bigrams.bigram_hashes`` and ``distinct_by_row``.
    """
    cdef size_t rows = _checked(offsets, ids.shape[0])
    cdef uint64_t[::1] distinct = np.empty(ids.shape[0] + 1, dtype=np.uint64)
    cdef int64_t[::1] counts = np.zeros(rows + 1, dtype=np.int64)
    cdef int64_t filled = 0
    if ids.shape[0]:
        filled = c_distinct_bigrams(
            &ids[0], &offsets[0], rows, &hashes[0] if hashes.shape[0] else NULL, hashes.shape[0],
            &distinct[0], &counts[0])
    if filled < 0:
        raise ValueError("a unit without a hash")
    return np.asarray(distinct)[:filled], np.asarray(counts)[:rows]
