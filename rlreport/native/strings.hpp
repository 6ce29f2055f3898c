// Strings of strict JSON, eight bytes at a time, and a table of raw token strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "numbers.hpp"

namespace rlreport {

constexpr uint64_t ONES = 0x0101010101010101, HIGHS = 0x8080808080808080;

// The inside of a string literal: bytes between its quotes.
struct Span {
    const char* at = nullptr;
    size_t size = 0;
    bool escaped = false;
};

// High bits where a byte ends a plain run: quotes, backslashes, controls. The lowest one is exact.
inline uint64_t specials(uint64_t word) {
    const uint64_t quote = word ^ (ONES * '"'), backslash = word ^ (ONES * '\\');
    return (((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash) |
            ((word - ONES * 0x20) & ~word)) & HIGHS;
}

// Read a string whose inside begins at p; returns the place after its closing quote, or null
// where it has none or holds a control character. Neither its escapes nor its UTF-8 are looked at.
inline const char* string(const char* p, const char* end, Span& out) {
    out.at = p;
    out.escaped = false;
    while (true) {
        while (end - p >= 8) {
            const uint64_t found = specials(load(p));
            if (found) {
                p += __builtin_ctzll(found) >> 3;
                break;
            }
            p += 8;
        }
        while (p < end && static_cast<unsigned char>(*p) >= 0x20 && *p != '"' && *p != '\\') ++p;
        if (p == end || static_cast<unsigned char>(*p) < 0x20) return nullptr;
        if (*p == '"') {
            out.size = static_cast<size_t>(p - out.at);
            return p + 1;
        }
        out.escaped = true;
        if (end - p < 2) return nullptr;
        p += 2;
    }
}

// The first ``size`` bytes at p, at most eight, zeros after them.
inline uint64_t word_of(const char* p, size_t size, const char* end) {
    if (size == 0) return 0;
    if (end - p >= 8) return load(p) & (~0ULL >> (64 - 8 * size));
    uint64_t word = 0;
    std::memcpy(&word, p, size);
    return word;
}

// Raw token strings to numbers. JSON has no raw NUL, so that the bytes of a short string say
// which one it is; longer ones are known by a hash, and compared with a copy.
class RawTable {
public:
    RawTable() { allocate(1 << 14); }

    // The key of a string that ends before ``end``; where it lies in the table is fetched ahead.
    uint64_t prepare(const char* p, size_t size, const char* end) const {
        const uint64_t key = key_of(p, size, end);
        __builtin_prefetch(&slots_[place(key)]);
        return key;
    }

    // The number of a string with this key, -1 where unknown.
    int32_t find(const char* p, size_t size, uint64_t key) const {
        for (size_t at = place(key);; at = (at + 1) & (slots_.size() - 1)) {
            const Slot& slot = slots_[at];
            if (slot.number < 0) return -1;
            if (slot.key == key && same(slot, p, size)) return slot.number;
        }
    }

    // Add an unknown string with a number that is not negative.
    void put(const char* p, size_t size, int32_t number) {
        if (2 * (count_ + 1) > slots_.size()) {
            const std::vector<Slot> old = std::move(slots_);
            allocate(2 * old.size());
            for (const Slot& slot : old)
                if (slot.number >= 0) slots_[free_place(slot.key)] = slot;
        }
        const uint64_t key = key_of(p, size, p + size);
        Slot& slot = slots_[free_place(key)];
        if (size > 8) long_.emplace_back(p, size);
        slot = Slot{key, number, size > 8 ? static_cast<uint32_t>(long_.size()) : 0};
        ++count_;
    }

private:
    // Small, as a table that stays in the cache is what makes it fast.
    struct Slot {
        uint64_t key = 0;
        int32_t number = -1;
        uint32_t longer = 0;  // one more than the place in long_; 0 for up to eight bytes
    };

    static uint64_t key_of(const char* p, size_t size, const char* end) {
        if (size <= 8) return word_of(p, size, end);
        uint64_t key = size;
        for (; size > 8; size -= 8, p += 8) {
            key = (key ^ load(p)) * 0x9E3779B97F4A7C15;
            key ^= key >> 29;
        }
        return (key ^ word_of(p, size, end)) * 0xBF58476D1CE4E5B9;
    }

    size_t place(uint64_t key) const { return (key * 0x9E3779B97F4A7C15) >> shift_; }

    size_t free_place(uint64_t key) const {
        size_t at = place(key);
        while (slots_[at].number >= 0) at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    bool same(const Slot& slot, const char* p, size_t size) const {
        if (size <= 8) return slot.longer == 0;
        if (slot.longer == 0) return false;
        const std::string& known = long_[slot.longer - 1];
        return known.size() == size && std::memcmp(known.data(), p, size) == 0;
    }

    void allocate(size_t size) {
        slots_.assign(size, Slot());
        shift_ = 64 - __builtin_ctzll(size);
    }

    std::vector<Slot> slots_;
    std::vector<std::string> long_;
    size_t count_ = 0;
    int shift_ = 64;
};

}  // namespace rlreport
