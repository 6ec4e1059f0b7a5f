"""Search terms: against a real FTS5 table, in the languages that people keep their memory in."""

import sqlite3
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.memory.terms import (
    LOOKED_CHARS,
    MAX_WORD_CHARS,
    MAX_WORDS,
    TOKENIZE,
    WEIGHTS,
    indexed,
    match,
    snippet,
)

HAN, KANA, HANGUL = "登录流程需要先验证令牌々〇𠮷", "ログイン手順とパスワード更新ー", "주문처리순서를확인한다"
BOPOMOFO = "ㄅㄆㄇㄈㄚㄧㄨ"
EVERY = "".join(map(chr, range(0x20, 0x250))) + HAN + KANA + HANGUL + '"*^():-\0\ud83d\u200b\u202e\n\t“”ｱﾞＡ'
SCRIPTS = [HAN, KANA, HANGUL, BOPOMOFO]


class Table:
    """A search table as the daemon keeps it: rows of name, description and body."""

    def __init__(self, *rows):
        self.base = sqlite3.connect(":memory:")
        self.base.execute(
            f'CREATE VIRTUAL TABLE facts USING fts5(name, description, body, tokenize="{TOKENIZE}")'
        )
        for row in rows:
            self.base.execute("INSERT INTO facts VALUES (?, ?, ?)", [indexed(text) for text in row])

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.base.close()

    def find(self, query, *, any_word=False):
        """Give the numbers (from 1) of the rows that are found, the best first."""
        expression = match(query, any_word=any_word)
        if expression is None:
            return []
        order = f"bm25(facts, {', '.join(map(str, WEIGHTS))})"
        rows = self.base.execute(
            f"SELECT rowid FROM facts WHERE facts MATCH ? ORDER BY {order}, rowid", (expression,)
        )
        return [row[0] for row in rows]


def body_holds(text, query, **options):
    """Tell whether a query finds a fact with this body."""
    with Table(("", "", text)) as table:
        return table.find(query, **options) == [1]


FOUND = [
    # English: words, beginnings from three letters on, case, order, identifiers
    ("The deploy script reads the config.", "deploy"),
    ("The deploy script reads the config.", "CONFIG deploy"),
    ("The deployment runs at night.", "deploy"),
    ("Run go test first.", "go"),
    ("See docs/format.md for it.", "docs/format.md"),
    ("See docs/format.md for it.", "format"),
    ("call read_snapshot() there", "snapshot"),
    ("call read_snapshot() there", "read_snapshot"),
    ("call readSnapshot() there", "readSnapshot"),
    ("call readSnapshot() there", "snapshot"),
    ("call readSnapshot() there", "read_snapshot"),
    ("the HTTPServer class", "server"),
    ("the HTTPServer class", "http"),
    ("set fooBar_baz-qux now", "bar"),
    ("set fooBar_baz-qux now", "baz-qux"),
    ("pin it to v1.2.3 please", "v1.2.3"),
    ("error -32002 again", "-32002"),
    ("C++ is used here", "c++"),
    ("AND so it is NOT OR", "NOT AND"),
    ("call readSnapshot() there", '"readsnapshot there"'),
    # German: umlauts typed or not, sharp s, soft hyphens, decomposed letters
    ("Die Größe der Tabelle ändert sich.", "große"),
    ("Die Größe der Tabelle ändert sich.", "grosse"),
    ("Die Grosse Tabelle", "größe"),
    ("Die Tabelle a\u0308ndert sich.", "ändert"),
    ("Die Tabelle ändert sich.", "a\u0308ndert"),
    ("STRASSE", "straße"),
    ("STRA\u1e9eE", "straße"),
    ("Daten\u00adbank", "datenbank"),
    ("Überprüfung nötig", "uberpruf"),
    # Other alphabets
    ("Ελληνικά κείμενα", "ελληνικα"),
    ("ΟΔΟΣ", "οδός"),
    ("Ёлка и й", "елка"),
    ("Проверка заказов", "провер"),
    ("हिन्दी में", "हिन्दी"),
    # Chinese
    ("登录流程需要先验证令牌。", "验证"),
    ("登录流程需要先验证令牌。", "流程需要"),
    ("登录流程需要先验证令牌。", "令牌 登录"),
    ("登录流程需要先验证令牌。", "牌"),
    ("登录流程需要先验证令牌。", "登"),
    ("登录流程,令牌", "“登录流程”"),
    ("人名𠮷野家", "𠮷野"),
    # Japanese: both scripts, long vowels, half-wide letters
    ("ログイン手順を更新した。", "ログイン"),
    ("ログイン手順を更新した。", "手順を更"),
    ("サーバー", "ーバ"),
    ("ﾛｸﾞｲﾝ ﾊﾞｯｸﾞ", "ログイン バッグ"),
    ("コンピュータ・システム", "システム"),
    ("時々見る", "時々"),
    # Korean: in one piece or in parts
    ("주문 처리 순서를 확인한다", "순서"),
    ("주문 처리 순서를 확인한다", "서를 처"),
    (unicodedata.normalize("NFD", "주문 처리"), "주문"),
    ("주문 처리", unicodedata.normalize("NFD", "처리")),
    # Bopomofo
    ("ㄅㄆㄇㄈ", "ㄆㄇ"),
    # Mixed
    ("登录API的限制", "api"),
    ("登录API的限制", "登录API"),
    ("登录 API 的限制", "登录API"),
    ("登录 API 的限制", '"登录API"'),
    ("登录API的限制", '"登录 api 的"'),
    ("登录API的限制", '"录API的限"'),
    ("修复了一个bug", "修复bug"),
    ("ＡＰＩ　ｋｅｙ", "api KEY"),
    ("foo\0bar", "bar"),
    ("lone \ud83d end", "end"),
    ("api" * 100, "api" * 100),
]


@pytest.mark.parametrize(("text", "query"), FOUND)
def test_a_text_is_found_by(text, query):
    """A fact is found by its words in any case, form and script, and by what begins or lies within them."""
    assert body_holds(text, query)


NOT_FOUND = [
    ("The deployment runs at night.", "ploy"),
    ("The deployment runs at night.", "deploy morning"),
    ("golang", "go"),
    ("deploy the script", '"script deploy"'),
    ("deployment script", '"deploy script"'),
    ("登录流程", "录登"),
    ("登录 流程", '"录流"'),
    ("登录流程", "登流"),
    ("ガイド", "カイ"),
    ("하나", "한"),
    ("йод", "иод"),
]


@pytest.mark.parametrize(("text", "query"), NOT_FOUND)
def test_a_text_is_not_found_by(text, query):
    """A fact is not found by the inside of a word, another order of a phrase, or letters that only look alike."""
    assert not body_holds(text, query)


def test_any_word_finds_what_all_words_do_not():
    """With `any_word` one word is enough, and of a run of Chinese one pair."""
    rows = (
        ("", "", "登录以后刷新会话"),
        ("", "", "deploy at night"),
        ("", "", "登录流程修复 deploy"),
        ("", "", "else"),
    )
    with Table(*rows) as table:
        assert table.find("登录流程修复 deploy") == [3]
        assert table.find("登录流程修复 deploy", any_word=True)[0] == 3
        assert set(table.find("登录流程修复 deploy", any_word=True)) == {1, 2, 3}


@pytest.mark.parametrize("query", ["", " ", "\n", '"', '""', "* - ^ : ()", "😀", "…", "\0", "\ud83d", "。、"])
def test_nothing_to_look_for_is_none(query):
    """A query without a letter or digit is no expression."""
    assert match(query) is None
    assert match(query, any_word=True) is None


SYNTAX = st.sampled_from(
    [
        "NEAR(",
        "AND",
        "OR NOT",
        "name:",
        "{name body}:",
        '"',
        "*",
        "^",
        "+",
        "-",
        ")",
        "(",
        "'",
        ";--",
        " ",
        "登录",
        "a",
    ]
)
ANY = st.text(st.characters(exclude_categories=()), max_size=60)


@settings(deadline=None)
@given(st.lists(ANY | SYNTAX, max_size=12).map("".join), st.booleans())
def test_no_text_is_a_syntax_error(query, any_word):
    """Whatever a person types, FTS5 takes the expression."""
    with Table(("a", "b", "c")) as table:
        table.find(query, any_word=any_word)


@settings(deadline=None)
@given(st.text(EVERY, max_size=40))
def test_a_text_finds_itself(text):
    """A text pasted as the query finds the fact that holds it, if there is anything to look for."""
    if match(text) is not None and len(match(text).split('" "')) < MAX_WORDS:
        assert body_holds(text, text)


@pytest.mark.parametrize("letters", SCRIPTS)
def test_each_part_of_a_run_is_found(letters):
    """Every character of a run of Chinese, Japanese, Korean, and every longer part of it, finds it."""

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def check(data):
        run = data.draw(st.text(letters, min_size=1, max_size=20))
        start = data.draw(st.integers(0, len(run) - 1))
        end = data.draw(st.integers(start + 1, len(run)))
        around = st.sampled_from(["", " ", "api", "。", "\n", "_", "😀"])
        text = f"{data.draw(around)}{run}{data.draw(around)}"
        part = run[start:end]
        for query in (part, f'"{part}"'):
            assert body_holds(text, query)
            assert body_holds(text, query, any_word=True)

    check()


@settings(deadline=None)
@given(st.text(HAN, min_size=2, max_size=12), st.text(HAN, min_size=2, max_size=4))
def test_what_is_in_no_run_is_not_found(run, part):
    """A run of two characters or more is found only where it stands as a whole."""
    assert body_holds(run, part) == (part in run)


def test_the_letters_that_are_cut_into_pairs_are_letters_to_the_tokenizer():
    """SQLite's tokenizer and our runs agree on what a character of a word is."""
    odd = []
    with Table() as table:
        table.base.execute("CREATE VIRTUAL TABLE seen USING fts5vocab(facts, instance)")
        letters = [
            char
            for char in map(chr, [*range(0x3000, 0xA000), *range(0xAC00, 0xD7A4), *range(0x20000, 0x20100)])
            if char.isalnum() and unicodedata.is_normalized("NFKC", char)
        ]
        for char in letters:
            table.base.execute("INSERT INTO facts(rowid, body) VALUES (?, ?)", (ord(char), indexed(char)))
        known = {row[0] for row in table.base.execute("SELECT doc FROM seen")}
        odd = [char for char in letters if ord(char) not in known]
    # Letters that came to Unicode after this SQLite's tables.
    assert len(odd) < 100


def test_names_come_before_descriptions_before_bodies():
    """With our weights a hit in the name outranks one in the description, and that one in the body."""
    filler = "some more words about other things"
    rows = (
        (filler, filler, f"deploy {filler}"),
        (filler, f"deploy {filler}", filler),
        (f"deploy {filler}", filler, filler),
        *[(filler, filler, filler)] * 20,
    )
    with Table(*rows) as table:
        assert table.find("deploy") == [3, 2, 1]


def test_more_words_come_first():
    """Of facts that hold any word the one that holds all comes first."""
    rows = (
        ("", "", "deploy night"),
        ("", "", "deploy script night"),
        ("", "", "script it"),
        *[("", "", "x y z")] * 9,
    )
    with Table(*rows) as table:
        assert table.find("deploy script night", any_word=True)[0] == 2


def test_a_query_is_bounded():
    """At most 32 words of 64 characters are looked for."""
    expression = match(" ".join(f"w{number:03d}{'x' * 200}" for number in range(1000)))
    words = expression.split(" ")
    assert len(words) <= MAX_WORDS
    assert all(len(word) <= MAX_WORD_CHARS + 3 for word in words)
    run = "".join(chr(0x4E00 + number) for number in range(1000))
    assert len(match(run, any_word=True).split(" OR ")) == MAX_WORDS
    assert len(match(run)) < 3 * MAX_WORD_CHARS + 3


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_plain_text_stays_as_it_is(text):
    """ASCII goes into the index as it is; only the parts of joined words are put behind."""
    assert indexed(text).startswith(text)


def test_the_parts_of_a_joined_word_are_added_once():
    """`fooBar` is indexed as it is, and once more in parts."""
    assert indexed("a fooBar, a fooBar") == "a fooBar, a fooBar\nfoo Bar"
    assert indexed("parseJSONFile v2Beta") == "parseJSONFile v2Beta\nparse JSON File"
    assert indexed("x" * 70 + "Bar") == "x" * 70 + "Bar"


# --- snippets ----------------------------------------------------------------------------------------------------

FACT = """---
name: deploy-steps
description: "How the staging system is brought up"
metadata:
  node_type: memory
  type: project
---

# Deploy

First the script, later the config.
Then the script reads the config at night.
readSnapshot is called. Größe prüfen.
登录流程需要先验证令牌。
ﾊﾞｯｸﾞ を運ぶ。
"""

PLACES = [
    ("script", 11, "First the script, later the config."),
    ("night script config", 12, "Then the script reads the config at night."),
    ("script config", 11, "First the script, later the config."),
    ("deploy", 9, "# Deploy"),
    ("snapshot", 13, "readSnapshot is called. Größe prüfen."),
    ("GROSSE pruf", 13, "readSnapshot is called. Größe prüfen."),
    ("验证 令牌", 14, "登录流程需要先验证令牌。"),
    ("牌", 14, "登录流程需要先验证令牌。"),
    ("バッグ", 15, "ﾊﾞｯｸﾞ を運ぶ。"),
    ('"reads the config"', 12, "Then the script reads the config at night."),
    ('"config then"', 11, "First the script, later the config."),
    ("staging", 3, "How the staging system is brought up"),
    ("nothing", 3, "How the staging system is brought up"),
    ("project", 6, "project"),
    ("", 3, "How the staging system is brought up"),
]


@pytest.mark.parametrize(("query", "line", "shown"), PLACES)
def test_the_best_place_is_shown(query, line, shown):
    """The first line with the most words is shown; the body first, then the front matter, then the description."""
    assert snippet(FACT, query) == (line, shown)
    assert snippet("\ufeff" + FACT.replace("\n", "\r\n"), query) == (line, shown)


NO_BODY = [
    ("", (1, "")),
    ("\n\n  first words\nmore", (3, "first words")),
    ("---\nname: x\n---\n\nfirst words", (5, "first words")),
    ("---\nname: x\n---\n", (1, "---")),
    ("---\nno end\nfirst", (1, "---")),
    ("---\ndescription: |\n  told below\n---\n", (3, "told below")),
    ("---\ndescription: >-\n  told below\nname: z\n---\nbody", (3, "told below")),
    ("---\ndescription: 'it''s'\n---\nbody", (2, "it''s")),
    ("---\ndescription:\n---\nbody", (2, "description:")),
]


@pytest.mark.parametrize(("text", "place"), NO_BODY)
def test_a_hit_that_no_line_shows(text, place):
    """A fact that was found by its file's name shows its description, or where its body begins."""
    assert snippet(text, "elsewhere") == place


def test_a_long_line_is_cut_around_its_words():
    """Of a long line the part with the most words is shown, cut between words, with signs where it was cut."""
    line = (
        "before " * 100 + "the deploy alone " + "between " * 100 + "the deploy script here " + "after " * 100
    )
    number, shown = snippet(line, "deploy script")
    assert number == 1
    assert "deploy script" in shown
    assert shown.startswith("…between ")
    assert shown.endswith(" after…")
    assert len(shown) <= 160
    assert snippet("deploy " + "x" * 500, "deploy", width=20) == (1, "deploy xxxxxxxxxxxx…")
    assert snippet("x" * 500 + " deploy", "deploy", width=20) == (1, "…xxxxxxxxxxxx deploy")


def test_letters_that_fold_to_several_do_not_move_the_cut():
    """The part that is shown is right also behind letters that are compared as two, or as none."""
    for before in ("ß ", "ﬁ ", "ﾊﾞ ", "a\u0301 ", unicodedata.normalize("NFD", "주 "), "㍿ "):
        _, shown = snippet(before * 2_000 + "zielwort " + before * 2_000, "Zielwort", width=60)
        assert "zielwort" in shown
        assert len(shown) <= 60


@pytest.mark.parametrize(
    "char", ["\x1b", "\x07", "\u200b", "\u202e", "\u2066", "\ufeff", "\u2028", "\x85", "\u3164"]
)
def test_a_snippet_steers_nothing(char):
    """What a terminal or a reader would not see is left out, and a word that it cuts is found as a whole."""
    _, shown = snippet(f"one{char} two\tdeploy{char} three\r\n", "deploy")
    assert shown == "one two deploy three"


@settings(deadline=None)
@given(st.text(EVERY, max_size=300), st.text(EVERY, max_size=20), st.integers(0, 60))
def test_a_snippet_is_one_bounded_line_of_the_file(text, query, width):
    """Line and length hold for any text, and nothing invisible is shown."""
    number, shown = snippet(text, query, width=width)
    assert 1 <= number <= text.count("\n") + 1
    assert len(shown) <= width
    assert not [
        char
        for char in shown
        if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} or char in "\u200b\u202e"
    ]


@settings(deadline=None)
@given(st.data())
def test_what_is_found_is_shown(data):
    """A word that the search finds in the body stands in the snippet, as far as the snippet is wide enough."""
    words = ["deploy", "Größe", "验证令牌", "ログイン", "주문", "fooBar", "ΟΔΟΣ", "x9"]
    lines = st.lists(
        st.lists(st.sampled_from([*words, "else", "，", "·"]), max_size=60).map(" ".join), max_size=8
    )
    text = "\n".join(data.draw(lines))
    word = data.draw(st.sampled_from(words))
    if body_holds(text, word):
        number, shown = snippet(text, word, width=40)
        assert word in shown
        assert word in text.split("\n")[number - 1]


def test_what_lies_far_down_is_not_looked_for():
    """In a file that is far larger than any fact the place of a hit is looked for up to a bound."""
    text = "first\n" + "x\n" * LOOKED_CHARS + "deploy"
    assert snippet(text, "deploy") == (1, "first")


# --- bounds ----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["aB", "a", "登", "\u0301", "ß", '"', "a\n", "é ", "登 "])
def test_time_grows_with_length_only(piece):
    """No text of a size that a fact may have keeps anybody waiting."""
    text = piece * (500_000 // len(piece))
    indexed(text)
    match(text)
    assert snippet(text, "a aB 登 zz")[0] == 1
