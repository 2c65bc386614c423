"""Words of the PRISM language with their places: text to tokens, comments dropped.

Tokens are identifiers, numbers, quoted names, signs. `]|` and `|[` (in `system`) and `<-` (in renamings) are left as
single signs, because `x<-1` and `P>=1 [ F a ]|b` mean something else; the parsers put them together.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from polvet.errors import InputError, Where

MAX_CHARACTERS = 16_000_000
MAX_NAME = 250

TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v\n]+|//[^\n]*)
      | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<quoted>"[^"\n]*")
      | (?P<sign>\|\|\||\|\||<=>|->|=>|<=|>=|!=|\.\.|[-+*/%<>=!&|?:;,()\[\]{}'~^@])""",
    re.VERBOSE,
)
FOREIGN = {
    "==": "Write = to compare.",
    "&&": "Write & for 'and'.",
    "/*": "Comments start with // and end with the line.",
    ":=": "Write (x'=1) to assign.",
}


class Token(NamedTuple):
    """A word: its kind (`number`, `name`, `quoted`, `sign`, `end`), its text, its line and column (from 1)."""

    kind: str
    text: str
    line: int
    column: int

    def at(self, where: Where) -> Where:
        """Return the place of the word in the input that `where` names."""
        shift = (where.column or 1) - 1 if self.line == 1 else 0
        return Where(where.file, where.path, (where.line or 1) + self.line - 1, self.column + shift)

    def shown(self) -> str:
        """Return the word for a message, in quotes and not too long."""
        if self.kind == "end":
            return "the end"
        return f"'{self.text}'" if len(self.text) <= 30 else f"'{self.text[:30]}...'"


def tokens(text: str, where: Where) -> list[Token]:
    """Return the words of the text, and an `end` behind the last one."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the text has {len(text)} characters; at most {MAX_CHARACTERS} are read.", where, "Split it.")
    stream: list[Token] = []
    offset, line, line_start = 0, 1, 0
    match_at = TOKEN.match
    while offset < len(text):
        match = match_at(text, offset)
        if match is None:
            _refuse(text, offset, Token("sign", text[offset], line, offset - line_start + 1).at(where))
        kind, word = match.lastgroup or "", match.group()
        if kind != "space":
            token = Token(kind, word, line, offset - line_start + 1)
            stream.append(token)
            if len(word) > MAX_NAME and kind != "number":
                what = f"the name {token.shown()} has {len(word)} characters; at most {MAX_NAME} are read."
                raise InputError(what, token.at(where), "Use a shorter name.")
        elif (breaks := word.count("\n")) > 0:
            line += breaks
            line_start = offset + word.rindex("\n") + 1
        offset = match.end()
    stream.append(Token("end", "", line, offset - line_start + 1))
    return stream


def _refuse(text: str, offset: int, place: Where) -> NoReturn:
    char = text[offset]
    if char == '"':
        raise InputError("the quoted name is not closed in its line.", place, 'Write the second ".')
    shown = f"'{char}'" if char.isprintable() else f"the character U+{ord(char):04X}"
    hint = "A number needs a digit after its point." if char == "." else "Remove it."
    raise InputError(f"{shown} means nothing in the PRISM language.", place, hint)


class Cursor:
    """A place in a row of tokens, with the ways to look at what comes and to refuse it."""

    def __init__(self, text: str, where: Where) -> None:
        self.where = where
        self.tokens = tokens(text, where)
        self.position = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the word that comes, or one some words later."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Return the word that comes, and go past it."""
        token = self.tokens[self.position]
        self.position += token.kind != "end"
        return token

    def at(self, *texts: str) -> bool:
        """Return whether one of these signs or keywords comes."""
        token = self.tokens[self.position]
        return token.text in texts and token.kind in ("sign", "name")

    def take(self, text: str) -> bool:
        """Return whether this sign or keyword comes; if so, go past it."""
        if self.at(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str, after: str, hint: str | None = None) -> Token:
        """Go past this sign or keyword, or refuse what stands there instead."""
        if not self.at(text):
            self.unexpected(f"'{text}' {after}", hint or f"Write '{text}' there.")
        return self.next()

    def place(self, token: Token | None = None) -> Where:
        """Return the place of the word (default: the one that comes)."""
        return (token or self.peek()).at(self.where)

    def refuse(self, what: str, hint: str, token: Token | None = None) -> NoReturn:
        """Raise an InputError at the word (default: the one that comes)."""
        raise InputError(what, self.place(token), hint)

    def unexpected(self, wanted: str, hint: str) -> NoReturn:
        """Refuse the word that comes, because something else is wanted."""
        token = self.peek()
        before = self.tokens[max(self.position - 1, 0)]
        pairs = (before.text + token.text, token.text + self.peek(1).text)
        hint = next((FOREIGN[pair] for pair in pairs if token.kind == "sign" and pair in FOREIGN), hint)
        if token.text == "||":
            hint = "Write | for 'or'."
        if token.kind == "end":
            self.refuse(f"the text ends where {wanted} should be.", hint)
        self.refuse(f"{token.shown()} stands where {wanted} should be.", hint)
