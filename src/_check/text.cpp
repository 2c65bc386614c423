#include "text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace polvet::judging {

namespace {

// A string of JSON from its opening quote on; `at` is moved behind its end.
std::string unquoted(std::string_view text, size_t& at) {
    std::string out;
    for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] != '\\') {
            out += text[at];
            continue;
        }
        if (++at >= text.size()) break;
        static constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
        if (const size_t k = from.find(text[at]); k != std::string_view::npos) {
            out += to[k];
            continue;
        }
        unsigned code = 0;
        if (text[at] != 'u' || at + 4 >= text.size() ||
            std::from_chars(text.data() + at + 1, text.data() + at + 5, code, 16).ptr != text.data() + at + 5 || code >= 0xD800)
            throw Unhandled("an escape in a string");
        at += 4;
        if (code < 0x80) out += char(code);
        else if (code < 0x800) (out += char(0xC0 | code >> 6)) += char(0x80 | (code & 63));
        else ((out += char(0xE0 | code >> 12)) += char(0x80 | (code >> 6 & 63))) += char(0x80 | (code & 63));
    }
    if (at >= text.size()) throw Unhandled("a string is not closed");
    ++at;
    return out;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

size_t digits(std::string_view word, size_t at) {
    while (at < word.size() && word[at] >= '0' && word[at] <= '9') ++at;
    return at;
}

}  // namespace

std::string Item::name() const {
    const std::string& own = word();
    if (own == "*" || own == "error" || is_number(own)) throw Unhandled(own + " is not a name");
    return !own.empty() && own[0] == '"' ? own.substr(1) : own;
}

std::vector<Item> parse_flat(std::string_view text) {
    std::vector<Item> stack(1);
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (is_space(c)) {
            ++at;
        } else if (c == '(') {
            stack.emplace_back().is_list = true;
            ++at;
        } else if (c == ')') {
            if (stack.size() < 2) throw Unhandled("a bracket has no partner");
            Item done = std::move(stack.back());
            stack.pop_back();
            stack.back().parts.push_back(std::move(done));
            ++at;
        } else if (c == '"') {
            Item word;
            word.text = '"' + unquoted(text, at);
            stack.back().parts.push_back(std::move(word));
        } else {
            const size_t begin = at;
            while (at < text.size() && !is_space(text[at]) && text[at] != '(' && text[at] != ')' && text[at] != '"') ++at;
            Item word;
            word.text = text.substr(begin, at - begin);
            stack.back().parts.push_back(std::move(word));
        }
    }
    if (stack.size() != 1) throw Unhandled("a bracket is not closed");
    return std::move(stack[0].parts);
}

bool is_number(std::string_view word) {
    size_t at = !word.empty() && word[0] == '-', end = digits(word, at);
    if (end == at) return false;
    if (end < word.size() && word[end] == '.') {
        at = end + 1;
        if ((end = digits(word, at)) == at) return false;
    }
    if (end < word.size() && word[end] == 'e') {
        at = end + 1 + (end + 1 < word.size() && (word[end + 1] == '-' || word[end + 1] == '+'));
        if ((end = digits(word, at)) == at) return false;
    }
    return end == word.size();
}

bool is_double(std::string_view word) { return word.find_first_of(".e") != std::string_view::npos; }

int64_t to_integer(std::string_view word) {
    int64_t value = 0;
    if (!is_number(word) || is_double(word) || std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc())
        throw Unhandled(std::string(word.substr(0, 60)) + " is not an integer of 64 bits");
    return value;
}

double to_double(std::string_view word) {
    const double value = is_number(word) ? std::strtod(std::string(word).c_str(), nullptr) : NAN;
    if (!std::isfinite(value)) throw Unhandled(std::string(word.substr(0, 60)) + " is not a finite number");
    return value + 0.0;
}

Json::Json(std::string_view text) {
    struct Open {
        Value::Type type;
        std::vector<Value> children;
    };
    std::vector<Open> stack;
    bool is_done = false, wants_value = true;
    const auto add = [&](Value value) {
        if (stack.empty()) {
            root = value;
            is_done = true;
        } else {
            stack.back().children.push_back(value);
        }
        wants_value = false;
    };
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (is_space(c)) {
            ++at;
        } else if (is_done) {
            throw Unhandled("more than one value of JSON");
        } else if (c == '[' || c == '{') {
            if (!wants_value || stack.size() > 300) throw Unhandled("JSON is not well formed, or nests too deeply");
            stack.push_back({c == '[' ? Value::ARRAY : Value::OBJECT, {}});
            wants_value = true;
            ++at;
        } else if (c == ']' || c == '}') {
            if (stack.empty() || stack.back().type != (c == ']' ? Value::ARRAY : Value::OBJECT) ||
                (wants_value && !stack.back().children.empty()) || (c == '}' && stack.back().children.size() % 2))
                throw Unhandled("JSON is not well formed");
            const auto children = std::move(stack.back().children);
            Value value{stack.back().type, {}, uint32_t(nodes.size()), uint32_t(children.size())};
            nodes.insert(nodes.end(), children.begin(), children.end());
            stack.pop_back();
            add(value);
            ++at;
        } else if (c == ',' || c == ':') {
            const bool is_key = !stack.empty() && stack.back().type == Value::OBJECT && stack.back().children.size() % 2;
            if (stack.empty() || wants_value || (c == ':') != is_key) throw Unhandled("JSON is not well formed");
            wants_value = true;
            ++at;
        } else {
            const bool is_key = !stack.empty() && stack.back().type == Value::OBJECT && stack.back().children.size() % 2 == 0;
            if (!wants_value || (is_key && c != '"')) throw Unhandled("JSON is not well formed");
            if (c == '"') {
                const size_t begin = at + 1;
                size_t end = begin;
                while (end < text.size() && text[end] != '"' && text[end] != '\\') ++end;
                if (end < text.size() && text[end] == '"') {
                    at = end + 1;
                    add({Value::TEXT, text.substr(begin, end - begin), 0, 0});
                } else {
                    unescaped.push_back(unquoted(text, at));
                    add({Value::TEXT, unescaped.back(), 0, 0});
                }
                continue;
            }
            const size_t begin = at;
            while (at < text.size() &&
                   (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '-' || text[at] == '+' || text[at] == '.'))
                ++at;
            const std::string_view word = text.substr(begin, at - begin);
            if (word == "null") add({});
            else if (word == "true") add({Value::TRUE, {}, 0, 0});
            else if (word == "false") add({Value::FALSE, {}, 0, 0});
            else if (is_number(word)) add({Value::NUMBER, word, 0, 0});
            else throw Unhandled("JSON is not well formed");
        }
    }
    if (!is_done) throw Unhandled("JSON ends too early");
}

const Value* Json::find(const Value& object, std::string_view key) const {
    const Value* found = nullptr;
    for (uint32_t k = 0; object.type == Value::OBJECT && k + 1 < object.count; k += 2)
        if (nodes[object.first + k].text == key) {
            if (found) throw Unhandled("a key stands twice");
            found = &nodes[object.first + k + 1];
        }
    return found;
}

}  // namespace polvet::judging
