// Flat texts as trees of words, and JSON as trees of values: views into the bytes that were read.
#pragma once
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace polvet::judging {

// The text is not what its format says, or something this checker leaves to the reference: `what` says it.
struct Unhandled : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A word (text) or a list (children), of a flat text. A quoted name keeps its opening quote.
struct Item {
    std::string text;
    std::vector<Item> parts;
    bool is_list = false;

    const std::string& word() const {
        if (is_list) throw Unhandled("a list where a word is expected");
        return text;
    }
    std::string name() const;
    bool is(std::string_view key) const { return is_list && !parts.empty() && !parts[0].is_list && parts[0].text == key; }
};

std::vector<Item> parse_flat(std::string_view text);
bool is_number(std::string_view word);
bool is_double(std::string_view word);  // of a number: whether it has a point or an exponent
int64_t to_integer(std::string_view word);
double to_double(std::string_view word);

// A value of JSON; children of arrays and objects stand in `Json::nodes`, a key before each value of an object.
struct Value {
    enum Type : uint8_t { NUL, TRUE, FALSE, NUMBER, TEXT, ARRAY, OBJECT } type = NUL;
    std::string_view text;  // of numbers, and of texts without escapes
    uint32_t first = 0, count = 0;
};

struct Json {
    std::vector<Value> nodes;           // children of one list stand together
    std::deque<std::string> unescaped;  // texts with escapes: views of them stay good
    Value root;

    explicit Json(std::string_view text);
    const Value* find(const Value& object, std::string_view key) const;
    const Value& at(const Value& list, uint32_t k) const { return nodes[list.first + k]; }
};

}  // namespace polvet::judging
