"""Whether two texts share a word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.memory.audit.drift import share_a_word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("deploys go through make", "use MAKE for it"),
        ("Größe prüfen", "die GRÖSSE"),
        ("cafe\u0301 hours", "Café"),
        ("ｆｕｌｌ width", "full"),
        ("release_notes", "the notes"),
        ("数据库备份", "每天备份一次"),
        ("배포 절차", "새로운 배포절차를 본다"),
        ("データ移行", "移行の手順"),
        ("the 数据库 schema", "数据库"),
        ("猫", "猫"),
        ("naïve approach", "an approach"),
        ("", "anything"),
        ("—", "anything"),
        ("🎯", "目标"),
    ],
)
def test_texts_that_share_a_word_or_have_none(one, other):
    """Case, Unicode form and what stands around a word do not count; a text without words says nothing."""
    assert share_a_word(one, other)
    assert share_a_word(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("deploys go through make", "the staging host is shared"),
        ("数据库备份", "份额与数字"),
        ("배포 절차", "회의 기록"),
        ("make", "makefile"),
        ("deploy", "部署流程"),
    ],
)
def test_texts_that_share_none(one, other):
    """A part of a word, or one character of two, is no shared word."""
    assert not share_a_word(one, other)
    assert not share_a_word(other, one)


@given(st.text(), st.text())
def test_it_is_mutual(one, other):
    """Whatever the texts, the answer does not hang on which comes first, and a text shares words with itself."""
    assert share_a_word(one, other) == share_a_word(other, one)
    assert share_a_word(one + " ", one)
