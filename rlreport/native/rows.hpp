// One line of a native log: token arrays into flat buffers, all else as spans and numbers.
//
// Twin of fast_rows.FastRows, for strict JSON with the usual types. What is out of the ordinary
// is refused, and read another way: a wrong refusal costs time, a wrong acceptance is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "numbers.hpp"
#include "strings.hpp"

namespace rlreport {

constexpr int ARRAYS = 7, REWARDS = 4;
constexpr size_t MOST_KEYS = 64;

// What a field is; arrays and rewards are numbered on from theirs.
enum Kind {
    EXTRA, STEP, PROMPT, RESPONSE, REFERENCE, GROUP, FINISH, COUNTED, IGNORED, ODD, TOKENS,
    ARRAY, REWARD = ARRAY + ARRAYS,
};

enum class Found { ROW, REFUSED, NO_ROOM, MANY_KEYS };

enum class Type { NOTHING, NUMBER, BOOLEAN, TEXT, OTHER };

struct Value {
    Type type = Type::NOTHING;
    Number number{};
    Span text;  // of a list or an object: all of it
};

struct KeyedValue {
    size_t key;
    Value value;
};

// Token arrays of many rows side by side: ``used`` tokens of ``room`` in each buffer.
struct Tokens {
    double* columns[ARRAYS] = {};
    int32_t* ids = nullptr;
    size_t room = 0, used = 0;
    bool begun[ARRAYS] = {};
};

// A token string with its key in the table.
struct Token {
    Span text;
    uint64_t key;
};

// A token string that the table does not know, and its place among the row's.
struct Unknown {
    Token token;
    size_t place;
};

// Reads lines; what the last one holds lies in the members.
class Row {
public:
    Value step, prompt, response, reference, group, finish, rewards[REWARDS];
    std::vector<KeyedValue> extras, counted;
    std::vector<Value> ignored;
    std::vector<Span> nested;        // lists and objects, not looked into
    std::vector<Unknown> unknown;
    bool has_array[ARRAYS], has_tokens, uneven;
    int64_t size;                    // tokens of the shortest array, -1 without any
    std::vector<std::string> keys;   // by number, as they stand in the log

    void add_key(const char* name, size_t size, int kind) {
        keys.emplace_back(name, size);
        kinds_.push_back(kind);
        own_ = keys.size();
    }

    // Forget all keys that add_key did not add.
    void forget_keys() {
        keys.resize(own_);
        kinds_.resize(own_);
        order_.clear();
    }

    Found read(const char* p, const char* end, const Tokens& into, const RawTable& table) {
        into_ = &into;
        table_ = &table;
        end_ = end;
        clear();
        Found found = object(p);
        if (found == Found::ROW && (!complete() || fields_ & ODD_FIELDS)) found = Found::REFUSED;
        return found;
    }

private:
    static constexpr uint64_t ODD_FIELDS = 1ULL << ODD;
    static constexpr uint64_t REQUIRED =
        1ULL << STEP | 1ULL << PROMPT | 1ULL << RESPONSE | 1ULL << REWARD;

    void clear() {
        step = prompt = response = reference = group = finish = Value();
        for (Value& reward : rewards) reward = Value();
        for (bool& has : has_array) has = false;
        has_tokens = uneven = false;
        size = -1;
        fields_ = seen_ = 0;
        extras.clear();
        counted.clear();
        ignored.clear();
        nested.clear();
        unknown.clear();
        tokens_.clear();
    }

    bool complete() const {
        return (fields_ & REQUIRED) == REQUIRED && step.type == Type::NUMBER &&
               step.number.is_integer && prompt.type == Type::TEXT &&
               response.type == Type::TEXT && rewards[0].type == Type::NUMBER;
    }

    const char* space(const char* p) const {
        while (p < end_ && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) ++p;
        return p;
    }

    bool at(const char* p, char c) const { return p < end_ && *p == c; }

    Found object(const char* p) {
        p = space(p);
        if (!at(p, '{')) return Found::REFUSED;
        p = space(p + 1);
        for (size_t index = 0;; ++index) {
            if (!at(p, '"')) return Found::REFUSED;
            size_t key;
            const Found found = read_key(p, index, key);
            if (found != Found::ROW) return found;
            p = space(p);
            if (!at(p, ':')) return Found::REFUSED;
            const Found value = field(p = space(p + 1), key);
            if (value != Found::ROW) return value;
            p = space(p);
            if (at(p, '}')) return space(p + 1) == end_ ? Found::ROW : Found::REFUSED;
            if (!at(p, ',')) return Found::REFUSED;
            p = space(p + 1);
        }
    }

    // Read the key at p, and move p behind it. Most rows have the keys of the one before.
    Found read_key(const char*& p, size_t index, size_t& key) {
        Span name;
        p = string(p + 1, end_, name);
        if (p == nullptr || name.escaped) return Found::REFUSED;
        if (index < order_.size() && is_key(order_[index], name)) {
            key = order_[index];
        } else {
            for (key = 0; key < keys.size() && !is_key(key, name);) ++key;
            if (key == keys.size()) {
                if (key == MOST_KEYS) return Found::MANY_KEYS;
                keys.emplace_back(name.at, name.size);
                kinds_.push_back(EXTRA);
            }
            order_.resize(index);
            order_.push_back(key);
        }
        const uint64_t bit = 1ULL << key;
        if (seen_ & bit) return Found::REFUSED;
        seen_ |= bit;
        return Found::ROW;
    }

    bool is_key(size_t key, const Span& name) const {
        return keys[key].size() == name.size &&
               std::memcmp(keys[key].data(), name.at, name.size) == 0;
    }

    // Read the value at p, and move p behind it.
    Found field(const char*& p, size_t key) {
        const int kind = kinds_[key];
        // There are two fields for why a response ended; a row may have one of them.
        if (kind == FINISH && fields_ & 1ULL << FINISH) return Found::REFUSED;
        fields_ |= 1ULL << kind;
        if (kind == TOKENS) return strings(p);
        if (kind >= ARRAY && kind < REWARD) return numbers(p, static_cast<size_t>(kind - ARRAY));
        Value found;
        p = value(p, found);
        if (p == nullptr) return Found::REFUSED;
        const bool text = found.type == Type::TEXT, none = found.type == Type::NOTHING;
        bool fits = true;
        switch (kind) {
            case STEP: step = found; break;
            case PROMPT: prompt = found; break;
            case RESPONSE: response = found; break;
            case REFERENCE: reference = found; fits = text || none; break;
            case GROUP:
                group = found;
                fits = text || none || (found.type == Type::NUMBER && found.number.is_integer);
                break;
            case FINISH:
                finish = found;
                fits = text;
                extras.push_back({key, found});
                break;
            case EXTRA: extras.push_back({key, found}); break;
            case COUNTED:
                if (!none) counted.push_back({key, found});
                break;
            case IGNORED: ignored.push_back(found); break;
            case ODD: break;
            default:
                rewards[kind - REWARD] = found;
                fits = none || found.type == Type::NUMBER;
        }
        return fits ? Found::ROW : Found::REFUSED;
    }

    // Returns the place behind the value at p, or null.
    const char* value(const char* p, Value& out) {
        if (p == end_) return nullptr;
        switch (*p) {
            case '"':
                out.type = Type::TEXT;
                return string(p + 1, end_, out.text);
            case 'n': return literal(p, "null", out, Type::NOTHING, 0.0);
            case 't': return literal(p, "true", out, Type::BOOLEAN, 1.0);
            case 'f': return literal(p, "false", out, Type::BOOLEAN, 0.0);
            case '[': case '{': {
                out.type = Type::OTHER;
                const char* const after = behind_nested(p);
                if (after == nullptr) return nullptr;
                nested.push_back({p, static_cast<size_t>(after - p), false});
                return after;
            }
            default:
                out.type = Type::NUMBER;
                return number(p, end_, out.number);
        }
    }

    const char* literal(const char* p, const char* word, Value& out, Type type, double value) const {
        const size_t size = std::strlen(word);
        if (static_cast<size_t>(end_ - p) < size || std::memcmp(p, word, size) != 0) return nullptr;
        out.type = type;
        out.number.value = value;
        return p + size;
    }

    // Whether brackets match is for who looks into it; here only their number has to.
    const char* behind_nested(const char* p) const {
        size_t depth = 0;
        Span text;
        while (p < end_) {
            const char c = *p++;
            if (c == '"') {
                if ((p = string(p, end_, text)) == nullptr) return nullptr;
            } else if (c == '[' || c == '{') {
                ++depth;
            } else if ((c == ']' || c == '}') && --depth == 0) {
                return p;
            }
        }
        return nullptr;
    }

    void fit(size_t count) {
        const auto own = static_cast<int64_t>(count);
        uneven |= size >= 0 && own != size;
        size = size < 0 || own < size ? own : size;
    }

    Found null(const char*& p) const {
        Value none;
        p = at(p, 'n') ? literal(p, "null", none, Type::NOTHING, 0.0) : nullptr;
        return p == nullptr ? Found::REFUSED : Found::ROW;
    }

    Found numbers(const char*& p, size_t array) {
        if (!at(p, '[')) return null(p);
        double* const out = into_->columns[array] + into_->used;
        const size_t room = into_->room - into_->used;
        const char* q = space(p + 1);
        size_t count = 0;
        if (at(q, ']')) {
            p = q + 1;
            return Found::ROW;
        }
        while (true) {
            if (count == room) return Found::NO_ROOM;
            const char* after = common_number(q, end_, out[count]);
            if (after == nullptr) {
                Number read;
                after = number(q, end_, read);
                if (after == nullptr) return Found::REFUSED;
                out[count] = read.value;
            }
            q = after;
            ++count;
            if (!at(q, ',')) {
                q = space(q);
                if (at(q, ']')) break;
                if (!at(q, ',')) return Found::REFUSED;
            }
            q = space(q + 1);
        }
        p = q + 1;
        has_array[array] = true;
        fit(count);
        return Found::ROW;
    }

    Found strings(const char*& p) {
        if (!at(p, '[')) return null(p);
        int32_t* const out = into_->ids + into_->used;
        const size_t room = into_->room - into_->used;
        const char* q = space(p + 1);
        size_t count = 0;
        if (at(q, ']')) {
            ++q;
        } else {
            while (true) {
                Span text;
                if (!at(q, '"')) return Found::REFUSED;
                q = string(q + 1, end_, text);
                if (q == nullptr) return Found::REFUSED;
                tokens_.push_back({text, table_->prepare(text.at, text.size, end_)});
                if (!at(q, ',')) {
                    q = space(q);
                    if (at(q, ']')) break;
                    if (!at(q, ',')) return Found::REFUSED;
                }
                q = space(q + 1);
            }
            ++q;
        }
        if (tokens_.size() > room) return Found::NO_ROOM;
        for (const Token& token : tokens_) {
            out[count] = table_->find(token.text.at, token.text.size, token.key);
            if (out[count] < 0) unknown.push_back({token, count});
            ++count;
        }
        p = q;
        has_tokens = true;
        fit(count);
        return Found::ROW;
    }

    const Tokens* into_ = nullptr;
    const RawTable* table_ = nullptr;
    const char* end_ = nullptr;
    std::vector<int> kinds_;
    std::vector<Token> tokens_;
    std::vector<size_t> order_;  // keys of the last line that had any
    size_t own_ = 0;
    uint64_t fields_ = 0, seen_ = 0;
};

}  // namespace rlreport
