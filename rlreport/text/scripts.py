"""Scripts of letters (Latin, Cyrillic, …), and text that mixes them as no language does."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache

from rlreport.text.encodings import is_misread
from rlreport.text.tokens import units

# Scripts that one language mixes: Japanese has kana with Han, Korean Hangul with Han, and texts on
# Chinese pronunciation have Bopomofo
_EAST_ASIAN = frozenset({"CJK", "HANGUL", "BOPOMOFO"})
# Scripts of symbols and names, which words of East Asian languages may contain
_BESIDE_EAST_ASIAN = frozenset({"LATIN", "GREEK"})
_OF_ANY_SCRIPT = "MODIFIER"  # signs of pronunciation, such as ː
MOST_SCRIPTS = 2  # that a word of any language has

_REPLACEMENT = "\ufffd"  # stands for bytes that are no UTF-8
_BROKEN = re.compile(f"{_REPLACEMENT}+")
# Byte-level tokens of a small model leave a broken character now and then. A text is garbled if it
# has this many broken places, or this part of its characters is broken
BROKEN_PLACES = 3
BROKEN_SHARE = 0.2
# Pieces of other scripts in words are noise from so many borders on: two pieces have four
JOINTS = 4
# New emoji are added here: to an older Unicode they are unassigned
_PICTOGRAPHS = range(0x1F000, 0x20000)


@cache
def script_of(character: str) -> str:
    """Return the script of a letter as Unicode's names call it, "" for other characters.

    Japanese mixes kana with Chinese characters, so these count as one script, "CJK".
    """
    if not character.isalpha():
        return ""
    words = unicodedata.name(character, "").replace("-", " ")
    name = words.partition(" ")[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name


@cache
def _counted_script(character: str) -> str:
    """Return the script of a letter as ``is_garbled`` counts it, "" for none."""
    # Letters of formulas, half width or ligatures count as the plain ones: ℝ is R.
    plain = unicodedata.normalize("NFKC", character)
    name = script_of(plain[0])
    if name == _OF_ANY_SCRIPT:
        return ""
    return "CJK" if name in _EAST_ASIAN else name


@cache
def _is_unassigned(character: str) -> bool:
    is_pictograph = ord(character) in _PICTOGRAPHS
    return unicodedata.category(character) == "Cn" and not is_pictograph


# A text needs this many letters for its script to be recognized
LEAST_LETTERS = 6
# Of a text with more characters, every k-th one is looked at
_MOST_CHARACTERS = 64
_LATIN = "LATIN"
_ENOUGH_LETTERS = re.compile(rf"(?:[^A-Za-z]*+[A-Za-z]){{{LEAST_LETTERS}}}")
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())
_ASCII = bytes(range(128))
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
# What one of their characters says takes about so many letters of an alphabet: a Chinese text has
# 1.6 characters for each English word, which has five letters
OF_SYLLABLES = frozenset({"CJK", "HANGUL"})
LETTERS_PER_SYLLABLE = 3
# A text leaves a script if others have this part of it. Code and formulas may be as much in a text
# of any language, so their letters have to be most of it
LEAVES = 1 / 3
LEAVES_FOR_NOTATION = 1 / 2
NOTATION = frozenset({_LATIN, "GREEK"})


def main_script(text: str) -> str:
    """Return the script of most of a text, "" if it has fewer than LEAST_LETTERS.

    A Chinese character counts as LETTERS_PER_SYLLABLE letters.
    """
    if text.isascii():
        return _LATIN if _ENOUGH_LETTERS.match(text) else ""
    sizes = _sizes_of_scripts(text)
    # Of scripts of equal size, always the same one counts.
    return max(sorted(sizes), key=sizes.__getitem__) if sizes else ""


def leaves_script(text: str, script: str) -> bool | None:
    """Return whether much of a text is in another script, None with fewer than LEAST_LETTERS."""
    if text.isascii():
        return script != _LATIN if _ENOUGH_LETTERS.match(text) else None
    sizes = _sizes_of_scripts(text)
    if not sizes:
        return None
    total = sizes.total()
    del sizes[script]
    notation = sum(sizes[name] for name in NOTATION)
    others = sizes.total() - notation
    return others >= LEAVES * total or notation > LEAVES_FOR_NOTATION * total


def _sizes_of_scripts(text: str) -> Counter[str]:
    """Return how much of a text is in each script, in letters; {} with fewer than LEAST_LETTERS."""
    sample = text[:: len(text) // _MOST_CHARACTERS + 1]
    latin = len(sample.encode("ascii", "ignore").translate(None, _NO_LETTERS))
    sizes = Counter(map(script_of, _NOT_ASCII.findall(sample)))
    sizes[_LATIN] += latin
    del sizes[""]
    if sizes.total() < LEAST_LETTERS:
        return Counter()
    for name in OF_SYLLABLES & sizes.keys():
        sizes[name] *= LETTERS_PER_SYLLABLE
    return sizes


def is_garbled(text: str) -> bool:
    """Return whether a text has what no language and no tokenizer writes.

    That is a word of three scripts or more, pieces of other scripts joined to words, a character
    that Unicode does not assign, several U+FFFD elsewhere than at the end, where a cut may split a
    character, or UTF-8 that was read in another encoding. Words are ``tokens.units``; Han, kana,
    Hangul and Bopomofo are one script, beside which Latin and Greek do not count.
    """
    if text.isascii():
        return False
    # All of ASCII is assigned, and its letters are of one script. Its bytes are in no other
    # character, and are removed faster than characters are found.
    encoded = text.encode(errors="surrogatepass").translate(None, _ASCII)
    characters = set(encoded.decode(errors="surrogatepass"))
    if any(map(_is_unassigned, characters)):
        return True
    if _REPLACEMENT in characters and _is_broken(text):
        return True
    if is_misread(text, characters):
        return True
    if not _mixes(characters | {"a"}):  # nor does any of its words
        return False
    words = {word for word in units(text) if not word.isascii()}
    return any(_mixes(set(word)) for word in words) or bool(_joined_pieces(text))


def _joined_pieces(text: str) -> list[int]:
    """Return the indices of letters that follow one of another script without a blank.

    That is [] with fewer than JOINTS, or if fewer than three scripts are joined: a Chinese text
    may quote Russian words. Chinese takes Latin and Greek words in without blanks.
    """
    joints: list[int] = []
    joined: set[str] = set()
    before = ""
    for index, character in enumerate(text):
        # An accent, a vowel sign or a sign of pronunciation is of any script.
        if unicodedata.category(character) in ("Mn", "Mc", "Lm"):
            continue
        script = _counted_script(character)
        if before and script and _are_foreign({before, script}):
            joints.append(index)
            joined |= {before, script}
        before = script
    is_mixed = len(joints) >= JOINTS and len(joined) > MOST_SCRIPTS
    return joints if is_mixed else []


def _are_foreign(scripts: set[str]) -> bool:
    """Return whether two scripts are not those that Chinese, Japanese and Korean texts join."""
    return len(scripts) > 1 and not scripts <= {"CJK", *_BESIDE_EAST_ASIAN}


def garbled_at(text: str) -> int | None:
    """Return the index of what makes a text garbled, see ``is_garbled``; None without any."""
    mixed = [
        text.find(word)
        for word in units(text)
        if not word.isascii() and _mixes(set(word))
    ]
    odd = [
        index
        for index, character in enumerate(text)
        if character == _REPLACEMENT or _is_unassigned(character)
    ]
    first = min([*mixed, *odd, *_joined_pieces(text)], default=None)
    if first is None and is_misread(text, set(_NOT_ASCII.findall(text))):
        return next(i for i, letter in enumerate(text) if not letter.isascii())
    return first


def _is_broken(text: str) -> bool:
    """Return whether U+FFFD stands in many places of a text, or for much of it."""
    whole = text.rstrip(f"{_REPLACEMENT} \n")
    places = len(_BROKEN.findall(whole))
    characters = whole.count(_REPLACEMENT)
    return places >= BROKEN_PLACES or characters > BROKEN_SHARE * len(whole)


def _mixes(characters: set[str]) -> bool:
    """Return whether characters of one word would be of more scripts than a language has."""
    scripts = set(map(_counted_script, characters)) - {""}
    if len(scripts) <= MOST_SCRIPTS:
        return False
    if "CJK" in scripts:
        scripts -= _BESIDE_EAST_ASIAN
    return len(scripts) > MOST_SCRIPTS
