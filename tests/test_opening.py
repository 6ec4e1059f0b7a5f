"""Opening to read: links, long paths of Windows, and who waits for whom."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from zcsyncd.opening import LONG_FROM, is_link, long_form, open_to_read, system_path

posix_only = pytest.mark.skipif(
    sys.platform == "win32", reason="links need a right there; FIFOs are not there"
)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("C:\\a", "C:\\a"),
        ("C:\\" + "a" * LONG_FROM, "\\\\?\\C:\\" + "a" * LONG_FROM),
        ("c:/" + "a/" * LONG_FROM, "\\\\?\\c:\\" + "a\\" * LONG_FROM),
        ("\\\\server\\share\\" + "a" * LONG_FROM, "\\\\?\\UNC\\server\\share\\" + "a" * LONG_FROM),
        ("\\\\?\\C:\\" + "a" * LONG_FROM, "\\\\?\\C:\\" + "a" * LONG_FROM),
        ("a" * LONG_FROM, "a" * LONG_FROM),
    ],
)
def test_the_long_form_of_windows(path, form):
    """Absolute paths that are long, those of shares too; nothing else is touched."""
    assert long_form(path) == form


@posix_only
def test_elsewhere_a_path_stays_as_it_is():
    """Only Windows has the long form."""
    assert system_path("/" + "a" * 1000) == "/" + "a" * 1000


@posix_only
def test_a_link_is_followed_or_refused(tmp_path):
    """With `follow` its target is read; without, it is ELOOP, and told apart by `lstat`."""
    (tmp_path / "a.md").write_bytes(b"x")
    (tmp_path / "link.md").symlink_to("a.md")
    descriptor = open_to_read(str(tmp_path / "link.md"))
    assert os.read(descriptor, 9) == b"x"
    os.close(descriptor)
    with pytest.raises(OSError) as refused:
        open_to_read(str(tmp_path / "link.md"), follow=False)
    assert refused.value.errno == errno.ELOOP
    assert is_link(os.lstat(tmp_path / "link.md"))
    assert not is_link(os.lstat(tmp_path / "a.md"))


@posix_only
def test_a_fifo_does_not_stop_us(tmp_path):
    """Opening returns at once though nobody writes."""
    os.mkfifo(tmp_path / "pipe")
    os.close(open_to_read(str(tmp_path / "pipe")))
