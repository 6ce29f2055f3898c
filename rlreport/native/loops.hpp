// Loops over the tokens of many rows, in the order of operations of their NumPy twins.
//
// Rows lie side by side in flat arrays, cut by ``offsets`` (rows + 1 of them, ascending, the
// last one at most the flat arrays' size: see checked() in _scan.pyx).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace rlreport {

constexpr double NAN_ = std::numeric_limits<double>::quiet_NaN();

// NumPy's pairwise sum, so that not one bit differs.
inline double pairwise(const double* a, size_t n) {
    if (n < 8) {
        double sum = -0.0;
        for (size_t i = 0; i < n; ++i) sum += a[i];
        return sum;
    }
    if (n <= 128) {
        double r[8];
        for (int k = 0; k < 8; ++k) r[k] = a[k];
        size_t i = 8;
        for (; i + 8 <= n; i += 8)
            for (int k = 0; k < 8; ++k) r[k] += a[i + k];
        double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for (; i < n; ++i) sum += a[i];
        return sum;
    }
    size_t half = n / 2;
    half -= half % 8;
    return pairwise(a, half) + pairwise(a + half, n - half);
}

// What np.add.reduceat makes of one row.
inline double row_sum(const double* a, size_t n) {
    if (n == 0) return 0.0;
    return n == 1 ? a[0] : a[0] + pairwise(a + 1, n - 1);
}

// Twin of ragged.finite_sums for one row; ``spare`` holds the row where values are missing.
inline void finite_sum(const double* a, size_t n, std::vector<double>& spare, double& count,
                       double& sum) {
    size_t finite = 0;
    for (size_t i = 0; i < n; ++i) finite += std::isfinite(a[i]) ? 1 : 0;
    count = static_cast<double>(finite);
    if (finite == n) {
        sum = row_sum(a, n);
        return;
    }
    spare.resize(n);
    for (size_t i = 0; i < n; ++i) spare[i] = std::isfinite(a[i]) ? a[i] : 0.0;
    sum = row_sum(spare.data(), n);
}

inline void finite_sums(const double* flat, const int64_t* offsets, size_t rows, double* counts,
                        double* sums) {
    std::vector<double> spare;
    for (size_t row = 0; row < rows; ++row)
        finite_sum(flat + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row]), spare,
                   counts[row], sums[row]);
}

// Twin of ragged.row_moments.
inline void moments(const double* flat, const int64_t* offsets, size_t rows, double* counts,
                    double* means, double* squares) {
    std::vector<double> spare, deviations;
    for (size_t row = 0; row < rows; ++row) {
        const double* a = flat + offsets[row];
        const auto n = static_cast<size_t>(offsets[row + 1] - offsets[row]);
        double sum, none;
        finite_sum(a, n, spare, counts[row], sum);
        means[row] = counts[row] > 0 ? sum / counts[row] : NAN_;
        if (!(counts[row] > 0)) {
            squares[row] = NAN_;
            continue;
        }
        deviations.resize(n);
        for (size_t i = 0; i < n; ++i) {
            const double deviation = a[i] - means[row];
            deviations[i] = deviation * deviation;
        }
        finite_sum(deviations.data(), n, spare, none, squares[row]);
    }
}

// Twin of ragged.row_first_maxima, and of row_minima.
inline void extremes(const double* flat, const int64_t* offsets, size_t rows, double* smallest,
                     double* largest, double* position) {
    for (size_t row = 0; row < rows; ++row) {
        const double* a = flat + offsets[row];
        const auto n = static_cast<size_t>(offsets[row + 1] - offsets[row]);
        double low = std::numeric_limits<double>::infinity(), high = -low;
        bool any = false;
        for (size_t i = 0; i < n; ++i) {
            low = a[i] < low ? a[i] : low;
            high = a[i] > high ? a[i] : high;
            any |= a[i] == a[i];
        }
        smallest[row] = any ? low : NAN_;
        largest[row] = any ? high : NAN_;
        size_t at = 0;
        while (any && a[at] != high) ++at;
        position[row] = any ? static_cast<double>(at) : NAN_;
    }
}

constexpr size_t CHUNK = 32;

// Twin of token.discounted_sums for one row, in place. ``factors`` has one factor, and
// ``powers`` CHUNK of them, for each of ``levels`` levels of chunks of chunks.
inline void discounted(double* y, size_t n, const double* factors, const double* powers,
                       size_t levels) {
    for (size_t start = 0; start < n; start += CHUNK) {
        const size_t stop = std::min(n, start + CHUNK);
        for (size_t t = stop - 1; t-- > start;) y[t] += factors[0] * y[t + 1];
    }
    const size_t chunks = (n + CHUNK - 1) / CHUNK;
    if (chunks < 2 || levels < 2) return;
    std::vector<double> heads(chunks);
    for (size_t chunk = 0; chunk < chunks; ++chunk) heads[chunk] = y[chunk * CHUNK];
    discounted(heads.data(), chunks, factors + 1, powers + CHUNK, levels - 1);
    for (size_t chunk = 0; chunk + 1 < chunks; ++chunk)
        for (size_t t = 0; t < CHUNK; ++t) y[chunk * CHUNK + t] += powers[t] * heads[chunk + 1];
}

// Twin of token.gae.
inline void gae(const double* rewards, const double* values, const int64_t* offsets, size_t rows,
                double gamma, const double* factors, const double* powers, size_t levels,
                double* out) {
    for (size_t row = 0; row < rows; ++row) {
        const auto start = static_cast<size_t>(offsets[row]);
        const auto stop = static_cast<size_t>(offsets[row + 1]);
        if (start == stop) continue;
        for (size_t i = start; i + 1 < stop; ++i)
            out[i] = values[i + 1] * gamma + rewards[i] - values[i];
        out[stop - 1] = 0.0 * gamma + rewards[stop - 1] - values[stop - 1];
        discounted(out + start, stop - start, factors, powers, levels);
    }
}

constexpr size_t SOURCES = 6, SLOTS = 8, RARE = 10;
constexpr int64_t AHEAD = 8;

// Add a value to an exact sum, as exact.binned_sums does, as multiples of 2^-32 and of 16; the
// latter only for a value beyond eight. exact.settled makes high and low parts of them.
inline void add_exactly(double value, int64_t& low, int64_t* high) {
    if (!(std::fabs(value) <= 8.0)) {
        if (value != value) return;
        value = std::min(std::max(value, -1099511627776.0), 1099511627776.0);
        const double sixteens = std::rint(value / 16.0);
        *high += static_cast<int64_t>(sixteens);
        value -= sixteens * 16.0;
    }
    low += std::llrint(value * 4294967296.0);
}

struct TokenSources {
    const double *kl, *ratio, *prob, *ref_prob, *value, *returns;  // null where not there
};

// Whether the tokens of a row have nothing but values, within eight: ``rare`` is left alone then.
inline bool all_common(int64_t start, int64_t stop, const TokenSources& from) {
    if (!from.kl || !from.ratio || !from.prob || !from.ref_prob || !from.value || !from.returns)
        return false;
    bool common = true;
    for (int64_t i = start; i < stop; ++i)
        common &= std::fabs(from.kl[i]) <= 8.0 && std::fabs(from.ratio[i]) <= 8.0 &&
                  std::fabs(from.prob[i]) <= 8.0 && std::fabs(from.ref_prob[i]) <= 8.0 &&
                  std::fabs(from.value[i] - from.returns[i]) <= 8.0;
    return common;
}

// Twin of token_bins.bin_sums and NumpyBin.add for rows of one bin. ``common`` is (size, SLOTS):
// occurrences and multiples of 2^-32; ``rare`` (size, RARE): missing values and multiples of 16, or
// null until it is needed. Returns how many rows it has added before it was; -1, with nothing
// done, where a token's number is out of [0, size).
inline int64_t sum_tokens(const int64_t* rows, size_t count, const int64_t* offsets,
                       const int32_t* ids, const TokenSources& from, int64_t* common,
                       int64_t* rare, size_t size) {
    for (size_t k = 0; k < count; ++k)
        for (int64_t i = offsets[rows[k]]; i < offsets[rows[k] + 1]; ++i)
            if (static_cast<uint32_t>(ids[i]) >= size) return -1;
    for (size_t k = 0; k < count; ++k) {
        if (!rare && !all_common(offsets[rows[k]], offsets[rows[k] + 1], from))
            return static_cast<int64_t>(k);
        int64_t none[RARE];
        for (int64_t i = offsets[rows[k]]; i < offsets[rows[k] + 1]; ++i) {
            // Which tokens come next is known: their lines are fetched ahead.
            if (i + AHEAD < offsets[rows[k] + 1])
                __builtin_prefetch(common + SLOTS * static_cast<size_t>(ids[i + AHEAD]), 1);
            int64_t* own = common + SLOTS * static_cast<size_t>(ids[i]);
            int64_t* other = rare ? rare + RARE * static_cast<size_t>(ids[i]) : none;
            ++own[0];
            if (from.kl) add_exactly(from.kl[i], own[1], other + 4);
            if (from.ratio) {
                add_exactly(from.ratio[i], own[2], other + 5);
                add_exactly(std::fabs(from.ratio[i]), own[3], other + 6);
            }
            if (!from.ratio || !std::isfinite(from.ratio[i])) ++other[0];
            if (from.prob) add_exactly(from.prob[i], own[4], other + 7);
            if (!from.prob || !std::isfinite(from.prob[i])) ++other[1];
            if (from.ref_prob) add_exactly(from.ref_prob[i], own[5], other + 8);
            if (!from.ref_prob || !std::isfinite(from.ref_prob[i])) ++other[2];
            const bool known = from.value && from.returns;
            const double error = known ? std::fabs(from.value[i] - from.returns[i]) : NAN_;
            if (known) add_exactly(error, own[6], other + 9);
            if (!std::isfinite(error)) ++other[3];
        }
    }
    return static_cast<int64_t>(count);
}

// Twin of measure._penalty: of each row n, and the sums of x, y, xx, xy and yy, over the tokens
// before the last that have both; ``out`` is (6, rows).
inline void penalty_sums(const double* x, const double* y, const int64_t* offsets, size_t rows,
                         double* out) {
    std::vector<double> own[6];
    for (size_t row = 0; row < rows; ++row) {
        const int64_t start = offsets[row], stop = offsets[row + 1];
        const auto size = static_cast<size_t>(stop - start);
        for (auto& values : own) values.resize(size);
        for (int64_t i = start; i < stop; ++i) {
            const auto at = static_cast<size_t>(i - start);
            const bool usable = std::isfinite(x[i] + y[i]) && i + 1 < stop;
            const double left = usable ? x[i] : 0.0, right = usable ? y[i] : 0.0;
            own[0][at] = usable ? 1.0 : 0.0;
            own[1][at] = left;
            own[2][at] = right;
            own[3][at] = left * left;
            own[4][at] = left * right;
            own[5][at] = right * right;
        }
        for (size_t i = 0; i < 6; ++i) out[i * rows + row] = row_sum(own[i].data(), size);
    }
}

constexpr int64_t TENTHS = 10;

// Twin of PositionTable.add but for the carry: ``counts`` is (TENTHS,), ``sums`` (3, 2, TENTHS).
inline void add_positions(const int64_t* offsets, size_t rows, const double* value,
                          const double* returns, int64_t* counts, int64_t* sums) {
    std::vector<double> parts[3], spare;
    for (size_t row = 0; row < rows; ++row) {
        const int64_t start = offsets[row], length = offsets[row + 1] - start;
        for (int64_t tenth = 0; tenth < TENTHS; ++tenth) {
            const int64_t from = start + (length * tenth + TENTHS - 1) / TENTHS;
            const int64_t stop = start + (length * (tenth + 1) + TENTHS - 1) / TENTHS;
            for (auto& part : parts) part.resize(static_cast<size_t>(stop - from));
            for (int64_t i = from; i < stop; ++i) {
                const auto at = static_cast<size_t>(i - from);
                const double error = value[i] - returns[i];
                const bool known = std::isfinite(error);
                parts[0][at] = std::fabs(error);
                parts[1][at] = known ? value[i] : NAN_;
                parts[2][at] = known ? returns[i] : NAN_;
            }
            for (int64_t part = 0; part < 3; ++part) {
                double count, sum;
                finite_sum(parts[part].data(), parts[part].size(), spare, count, sum);
                if (part == 0) counts[tenth] += static_cast<int64_t>(count);
                int64_t* const own = sums + 2 * TENTHS * part + tenth;
                add_exactly(sum, own[TENTHS], own);
            }
        }
    }
}

// Twin of hashing.mix.
inline uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

// Twin of bigrams.bigram_hashes and distinct_by_row: ``distinct`` gets the distinct hashes of
// row after row, ``counts`` how many each row has; ``distinct`` has room for one a unit.
// Returns how many there are in all; -1 where a unit's number is out of [0, size).
inline int64_t distinct_bigrams(const int32_t* ids, const int64_t* offsets, size_t rows,
                                const uint64_t* hashes, size_t size, uint64_t* distinct,
                                int64_t* counts) {
    std::vector<uint64_t> set;
    int64_t filled = 0;
    for (size_t row = 0; row < rows; ++row) {
        const int64_t start = offsets[row], stop = offsets[row + 1];
        counts[row] = 0;
        size_t slots = 16;
        while (slots < 2 * static_cast<size_t>(stop - start)) slots *= 2;
        set.assign(slots, 0);
        bool zero = false;
        for (int64_t i = start; i < stop; ++i)
            if (static_cast<uint32_t>(ids[i]) >= size) return -1;
        for (int64_t i = start; i + 1 < stop; ++i) {
            const uint64_t hash = mix(hashes[ids[i]] * 0x9E3779B97F4A7C15 + hashes[ids[i + 1]]);
            // Zero marks a free place; a hash of zero is as good as any.
            size_t place = hash & (slots - 1);
            while (set[place] != 0 && set[place] != hash) place = (place + 1) & (slots - 1);
            if (hash == 0 ? zero : set[place] == hash) continue;
            set[place] = hash;
            zero |= hash == 0;
            distinct[filled++] = hash;
            ++counts[row];
        }
    }
    return filled;
}

}  // namespace rlreport
