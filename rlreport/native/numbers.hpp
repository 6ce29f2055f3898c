// Numbers of strict JSON to float64, exactly rounded, eight digits at a time.
//
// The digits make a 64-bit integer w and a decimal exponent q; w * 10^q is rounded by one
// product with the 128 leading bits of 5^q (Lemire 2021, "Number Parsing at a Gigabyte per
// Second"; Mushtak and Lemire 2023 show that it never fails for up to 19 digits). Longer
// numbers and rare exponents are left to std::from_chars.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <system_error>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bytes are read eight at a time, the first one lowest"
#endif

namespace rlreport {

constexpr int SMALLEST_POWER = -64, LARGEST_POWER = 64;
constexpr int POWERS = LARGEST_POWER - SMALLEST_POWER + 1;
constexpr int MOST_DIGITS = 19;
constexpr int MOST_INTEGER_DIGITS = 18;

// The 128 leading bits of 5^q for q from SMALLEST_POWER on: high word, low word.
inline uint64_t powers_of_five[POWERS][2];

struct Number {
    double value;
    int64_t integer;   // the value, where is_integer
    bool is_integer;   // written without a fraction and an exponent
};

inline uint64_t load(const char* p) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

// Eight digits, each 0 to 9 in a byte of its own, the first one lowest.
inline uint64_t eight_digits(uint64_t word) {
    word = (word * 10) + (word >> 8);
    constexpr uint64_t mask = 0x000000FF000000FF;
    constexpr uint64_t first = 100 + (1000000ULL << 32), second = 1 + (10000ULL << 32);
    return (((word & mask) * first) + (((word >> 16) & mask) * second)) >> 32;
}

constexpr uint64_t TENS[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// Round w * 10^q; false where it takes more than this to tell.
inline bool rounded(uint64_t w, int64_t q, bool negative, double& out) {
    if (q < SMALLEST_POWER || q > LARGEST_POWER) return false;
    const int zeros = __builtin_clzll(w);
    w <<= zeros;
    const uint64_t* power = powers_of_five[q - SMALLEST_POWER];
    const auto product = static_cast<unsigned __int128>(w) * power[0];
    uint64_t high = static_cast<uint64_t>(product >> 64), low = static_cast<uint64_t>(product);
    if ((high & 0x1FF) == 0x1FF) {
        const auto rest = static_cast<unsigned __int128>(w) * power[1];
        const uint64_t more = static_cast<uint64_t>(rest >> 64);
        low += more;
        if (low < more) ++high;
    }
    if (low == ~0ULL) return false;
    const int upper = static_cast<int>(high >> 63);
    uint64_t mantissa = high >> (upper + 9);
    // floor(log2(10^q)) + 63, as 217706 / 2^16 is close enough to log2(10).
    const int exponent = static_cast<int>((217706 * q) >> 16) + 63 + upper - zeros + 1023;
    if (exponent <= 0) return false;
    // Just half way between two numbers: to the even one.
    if (low <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1 && mantissa << (upper + 9) == high)
        mantissa &= ~1ULL;
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    const uint64_t carried = mantissa >> 53;
    mantissa >>= carried;
    const uint64_t biased = static_cast<uint64_t>(exponent) + carried;
    if (biased >= 0x7FF) return false;
    const uint64_t sign = static_cast<uint64_t>(negative) << 63;
    const uint64_t bits = (mantissa & ~(1ULL << 52)) | (biased << 52) | sign;
    std::memcpy(&out, &bits, sizeof out);
    return true;
}

// High bits where bytes, of which '0' was taken with xor, are no digits. The lowest one is exact.
inline uint64_t others(uint64_t word) {
    return (word | (word + 0x7676767676767676)) & 0x8080808080808080;
}

// The first ``count`` digits of a word, fewer than eight; in two steps, as a shift by 64 bits
// has no meaning.
inline uint64_t few_digits(uint64_t word, int count) {
    return eight_digits((word << 4) << (60 - 8 * count));
}

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// Read digits in [p, end) on to w; returns where they end. w is right up to MOST_DIGITS digits.
inline const char* digits(const char* p, const char* end, uint64_t& w) {
    while (end - p >= 8) {
        const uint64_t word = load(p) ^ 0x3030303030303030;
        const uint64_t stops = others(word);
        if (!stops) {
            w = w * TENS[8] + eight_digits(word);
            p += 8;
            continue;
        }
        const int count = __builtin_ctzll(stops) >> 3;
        w = w * TENS[count] + few_digits(word, count);
        return p + count;
    }
    for (; p < end && is_digit(*p); ++p) w = w * 10 + static_cast<uint64_t>(*p - '0');
    return p;
}

// Read a number that begins at p; returns where it ends, or null where it is none, where it is
// out of range, or where a double and an integer of 64 bits would not both hold it.
inline const char* number(const char* p, const char* end, Number& out) {
    const char* const start = p;
    const bool negative = p < end && *p == '-';
    p += negative;
    uint64_t w = 0;
    const char* const whole = p;
    while (p < end && is_digit(*p)) {
        // Beyond that w would overflow and mean nothing, but is not looked at either.
        w = w * 10 + static_cast<uint64_t>(*p - '0');
        ++p;
    }
    int64_t count = p - whole;
    if (count == 0 || (count > 1 && *whole == '0')) return nullptr;
    int64_t exponent = 0;
    bool is_integer = true;
    if (p < end && *p == '.') {
        is_integer = false;
        const char* const fraction = ++p;
        p = digits(p, end, w);
        if (p == fraction) return nullptr;
        exponent = fraction - p;
        count += p - fraction;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        is_integer = false;
        ++p;
        const bool minus = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        const char* const first = p;
        int64_t power = 0;
        for (; p < end && is_digit(*p); ++p)
            if (power < 100000) power = power * 10 + (*p - '0');
        if (p == first) return nullptr;
        exponent += minus ? -power : power;
    }
    out.is_integer = is_integer;
    if (is_integer) {
        if (count > MOST_INTEGER_DIGITS) return nullptr;
        out.integer = negative ? -static_cast<int64_t>(w) : static_cast<int64_t>(w);
        // As Python has it, an integer has no negative zero.
        out.value = static_cast<double>(out.integer);
        return p;
    }
    if (count > MOST_DIGITS) {
        // Zeros before the first digit that counts do not make a number long.
        for (const char* zero = whole; count > MOST_DIGITS && (*zero == '0' || *zero == '.'); ++zero)
            count -= *zero == '0';
    }
    if (count <= MOST_DIGITS) {
        if (w == 0) {
            out.value = negative ? -0.0 : 0.0;
            return p;
        }
        if (rounded(w, exponent, negative, out.value)) return p;
    }
    const std::from_chars_result read = std::from_chars(start, p, out.value);
    return read.ec == std::errc() && read.ptr == p ? p : nullptr;
}

// What is read in one go, at most.
constexpr int LONGEST_COMMON = 27;

// Read a number as most are: one digit, a point, and 8 to 23 digits, without an exponent. Returns
// where it ends, or null where ``number`` has to look at it. Few branches, which could be
// mispredicted: most of the time goes into those.
inline const char* common_number(const char* p, const char* end, double& out) {
    // So many digits before k further ones, and after eight others, still fit.
    constexpr uint64_t LIMITS[8] = {100000000000, 10000000000, 1000000000, 100000000,
                                    10000000,     1000000,     100000,     10000};
    if (end - p < LONGEST_COMMON) return nullptr;
    const bool negative = *p == '-';
    p += negative;
    const auto whole = static_cast<unsigned char>(*p - '0');
    if (whole > 9 || p[1] != '.') return nullptr;
    p += 2;
    const uint64_t first = load(p) ^ 0x3030303030303030, second = load(p + 8) ^ 0x3030303030303030;
    if (others(first)) return nullptr;
    uint64_t w = whole * TENS[8] + eight_digits(first);
    int64_t count = 8;
    if (const uint64_t stops = others(second)) {
        const int more = __builtin_ctzll(stops) >> 3;
        w = w * TENS[more] + few_digits(second, more);
        count += more;
    } else {
        const uint64_t third = load(p + 16) ^ 0x3030303030303030, last = others(third);
        if (!last) return nullptr;
        const int more = __builtin_ctzll(last) >> 3;
        if (w >= LIMITS[more]) return nullptr;
        w = w * TENS[8] * TENS[more] + (eight_digits(second) * TENS[more] + few_digits(third, more));
        count += 8 + more;
    }
    p += count;
    if (w == 0 || (*p != ',' && *p != ']')) return nullptr;
    return rounded(w, -count, negative, out) ? p : nullptr;
}

}  // namespace rlreport
