"""Edits of an index: its bytes and a wish to new bytes in which nothing else differs. Pure.

Rule 1: a line that is not ours stays as it is: line ends, the byte order mark, the last line's end, blanks, comments.
Rule 2: the reader (memory/entries.py) is the judge. An edit is taken only if the index then reads as before but for
what was wished: no other entry appears, goes, is hidden or comes to light.
Rule 3: a new entry is where the model sees it, in the one form that we write: `- [title](file.md) — hook`.
Rule 4: only UTF-8 is written.

An entry has its line *to itself* when it is that line's first link and the line says nothing before it (`own` in
memory/entries.py). Links in prose and further links of a line are mentions: nothing here takes one out.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from zcsyncd.errors import Refused, Unreadable
from zcsyncd.memory.entries import MAX_HOOK_CHARS, MAX_TITLE_CHARS, Entry, Page, read_page
from zcsyncd.memory.injection import Stripped, strip
from zcsyncd.memory.links import MAX_TARGET_CHARS, Link, leaves, legible, links, local_path, loose_link
from zcsyncd.memory.past import Loss
from zcsyncd.memory.plain import append
from zcsyncd.memory.text import MARK, decode, well_formed

INDEX_NAME = "MEMORY.md"
ENDING = ".md"
MAX_PLACES = 64
"""Places that are tried, from the end and from the beginning, before it is said that an entry cannot be seen."""

_DASH = " — "
_LINE_END = re.compile(r"\r\n|\r|\n")
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_TITLE_SIGNS = re.compile(r"[\\\[\]`<]")
_LIVE_LINK = re.compile(r"(?<!\\)((?:\\\\)*)\](?=\()")
_SAFE_IN_TARGET = frozenset("/!$&'+,-./;=@_~")
_BULLET = re.compile(r"\s*(?:[-*+•](?:\s|(?=\[))|\d{1,9}[.)]\s)")
_BEGINS_BLOCK = re.compile(r"\s*(?:[-*+•](?:\s|\[|$)|\d{1,9}[.)](?:\s|$)|#{1,6}(?:\s|$)|```|~~~|[<>|])")
_UNDERLINE = re.compile(r"\s*(?:-+|=+|[-*_](?:[ \t]*[-*_]){2,})\s*")
_SEPARATOR_AT_END = re.compile(r"(?:[—–―]{1,3}|-{1,3}|[:：|])$")
_TAB = 4
_DEEPER = 2
"""Columns by which a line has to be indented to be part of the list item above it."""


# -- an entry as text ----------------------------------------------------------------------------------------


def entry_text(title: str, file: str, hook: str) -> str:
    """Write an entry: `- [title](file) — hook`, without a line end; no dash without a hook.

    Title and hook become one line each, and are cut where the reader cuts them; a blank title becomes the file's
    stem. The line reads back as exactly `file`, the title, and the hook as `hook_text` gives it.

    Raises:
        Refused: no link can name the file (a backslash, bytes that are no UTF-8, a place outside).
    """
    title = _bounded(_one_line(title), MAX_TITLE_CHARS) or _one_line(_stem(file)) or "…"
    hook = hook_text(hook)
    line = f"- [{_TITLE_SIGNS.sub(_escaped, title)}]({_quoted(file)})"
    return f"{line}{_DASH}{hook}" if hook else line


def hook_text(hook: str) -> str:
    """Give a hook as it stands in an entry: one line, and no link in it that would pass for a second entry."""
    hook = _bounded(_one_line(hook), MAX_HOOK_CHARS)
    if "](" not in hook or not any(_is_mention(link) for link in links(hook)):
        return hook
    return _bounded(_LIVE_LINK.sub(r"\1\\]", hook), MAX_HOOK_CHARS)


def _is_mention(link: Link) -> bool:
    path = local_path(link.target)
    return path is not None and path != INDEX_NAME and path.lower().endswith(ENDING)


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", well_formed(text)).strip()


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _stem(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(ENDING)


def _escaped(sign: re.Match[str]) -> str:
    return "\\" + sign.group()


def _quoted(file: str) -> str:
    """Write a path as a link's target: what would end it, or mean something else in a URL, as `%` and hex digits.

    Raises:
        Refused: the target would not be read as this path.
    """
    target = "".join(
        sign
        if (sign.isalnum() or sign in _SAFE_IN_TARGET or ord(sign) > 127) and sign.isprintable()
        else "".join(f"%{byte:02X}" for byte in sign.encode("utf-8", "surrogatepass"))
        for sign in file
    )
    if local_path(target) != file or leaves(file) or file == INDEX_NAME or len(target) >= MAX_TARGET_CHARS:
        raise Refused(
            f"no entry of {INDEX_NAME} can name {legible(file)}",
            hint="give the file a name of letters, digits, `-` and `_`",
            file=file,
        )
    return target


# -- an index as lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sheet:
    """An index as lines, and what the reader says of it. Lines are counted from 1, places between them from 0."""

    mark: str
    """The byte order mark, or nothing."""
    lines: tuple[str, ...]
    """Without their ends."""
    ends: tuple[str, ...]
    """The last may be empty."""
    stripped: Stripped
    page: Page
    """Read without the caps: what lies behind one is an entry all the same."""
    linked: frozenset[int]
    """Lines with an entry or a mention."""

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return (self.mark + "".join(chain(*zip(self.lines, self.ends, strict=True)))).encode()

    def visible(self) -> Iterator[Entry]:
        """Give the entries that the audit counts: all but those in comments and fences."""
        return (entry for entry in self.page.entries if not entry.hidden)

    def own(self, target: str) -> list[Entry]:
        """Give the entries of a target that have their line to themselves, in order; none in a comment or fence.

        Those that a leading block swallows are among them: they are entries that were meant.
        """
        own = {entry.line: entry for entry in self.page.own if entry.target == target}
        if target in self.page.swallowed:
            swallowed = (entry for entry in self.visible() if entry.target == target)
            own.update(
                (entry.line, entry)
                for entry in swallowed
                if entry.line <= self.front_line
                and any(alone.target == target for alone in _page(self.lines[entry.line - 1]).own)
            )
        return [own[number] for number in sorted(own)]

    @property
    def front_line(self) -> int:
        """The line in which a leading block that is dropped ends; 0 when there is none."""
        return self.stripped.line(self.stripped.front) if self.stripped.front else 0

    def below(self, number: int) -> int:
        """Count the lines behind one that go with it: indented deeper, up to the next entry, not its last blanks."""
        return self._item(number, _column(self.lines[number - 1]) + _DEEPER)

    def _item(self, place: int, column: int, *, linked: bool = False) -> int:
        """Count the lines from a place on that are part of a list item whose content is indented so far.

        `linked`: those with links of their own as well, and all behind them.
        """
        count = 0
        for number in range(place + 1, len(self.lines) + 1):
            line = self.lines[number - 1]
            if not line.strip():
                continue
            if _column(line) < column or (number in self.linked and not linked):
                break
            count = number - place
        return count

    def with_lines(self, place: int, new: Sequence[str]) -> Sheet:
        """Put lines in. They end as the line before does; as the last lines of a file without a last end, like it."""
        end = self._end_at(place)
        if place == len(self.lines) and place and not self.ends[-1]:
            ends = (*self.ends[:-1], *[end] * len(new), "")
        else:
            ends = (*self.ends[:place], *[end] * len(new), *self.ends[place:])
        return _sheet(self.mark, (*self.lines[:place], *new, *self.lines[place:]), ends)

    def without(self, numbers: Collection[int]) -> Sheet:
        """Take lines out. A file whose last line has no end keeps that state."""
        kept = [at for at in range(len(self.lines)) if at + 1 not in numbers]
        ends = [self.ends[at] for at in kept]
        if ends and not self.ends[-1]:
            ends[-1] = ""
        return _sheet(self.mark, tuple(self.lines[at] for at in kept), tuple(ends))

    def cut(self, numbers: Collection[int]) -> Sheet | None:
        """Take lines out such that all else reads as before, if need be with a blank line in their place; None: no way.

        A `---` that would be the first line by it would swallow what follows.
        """
        after = self.without(numbers)
        if after.reads_as(self, gone=numbers):
            return after
        first = min(numbers)
        after = self.with_line(first, "").without({number for number in numbers if number != first})
        return after if after.reads_as(self, gone=numbers, new={first}) else None

    def with_line(self, number: int, text: str) -> Sheet:
        """Put a text in the place of a line's."""
        return _sheet(self.mark, (*self.lines[: number - 1], text, *self.lines[number:]), self.ends)

    def _end_at(self, place: int) -> str:
        """Tell how a line that is put here ends: as the one before, else as most, else LF."""
        near = self.ends[place - 1 : place] if place else self.ends[:1]
        if near and near[0]:
            return near[0]
        most = Counter(end for end in self.ends if end).most_common(1)
        return most[0][0] if most else "\n"

    def reads_as(self, before: Sheet, *, gone: Collection[int] = (), new: Collection[int] = ()) -> bool:
        """Tell whether the rest reads as before: lines `gone` of the sheet before and lines `new` of this left out."""
        return self._told(new) == before._told(gone) and self._comments() == before._comments()

    def shows_all_of(self, before: Sheet, *, new: Collection[int]) -> bool:
        """Tell whether all that the sheet before shows is still shown; lines `new` of this are left out."""
        return set(before._shown(())) <= set(self._shown(new)) and self._comments() == before._comments()

    def _shown(self, left_out: Collection[int]) -> Iterator[Entry]:
        out = sorted(left_out)
        front = self.front_line
        for entry in self.visible():
            if entry.line >= front and entry.line not in left_out:
                yield replace(entry, line=entry.line - bisect_left(out, entry.line))

    def _told(self, left_out: Collection[int]) -> list[tuple[object, ...]]:
        out = sorted(left_out)
        own = {id(entry) for entry in self.page.own}
        front = self.front_line
        entries = [
            (
                entry.line - bisect_left(out, entry.line),
                entry.target,
                entry.title,
                entry.hook,
                entry.hidden,
                id(entry) in own,
                entry.line < front,
            )
            for entry in self.page.entries
            if entry.line not in left_out
        ]
        warnings = [line for line in self.page.warnings if line not in left_out]
        swallows = [("front",)] if front else []
        return [*entries, *((line - bisect_left(out, line), "warning") for line in warnings), *swallows]

    def _comments(self) -> list[str]:
        source = self.stripped.source
        return [source[start:end].strip() for start, end in self.stripped.comments]


def read_sheet(content: bytes) -> Sheet:
    """Read an index for edits.

    Raises:
        Refused: it is not UTF-8 (it can be read, not written).
        Unreadable: no text at all.
    """
    decoded = decode(content)
    if decoded is None:
        raise Unreadable(
            f"{INDEX_NAME} holds bytes that are no text in UTF-8, UTF-16 with a BOM or GBK",
            hint="rewrite the file in UTF-8",
            file=INDEX_NAME,
        )
    if decoded.encoding != "utf-8" or decoded.lossy:
        raise Refused(
            f"{INDEX_NAME} is not UTF-8: it can be read, not written",
            hint="save the file as UTF-8, then try again",
            file=INDEX_NAME,
        )
    text = decoded.text.removeprefix(MARK)
    mark = decoded.text[: len(decoded.text) - len(text)]
    lines = _LINE_END.split(text)
    ends = [*_LINE_END.findall(text), ""]
    if not lines[-1]:
        lines.pop()
        ends.pop()
    return _sheet(mark, tuple(lines), tuple(ends))


def _sheet(mark: str, lines: tuple[str, ...], ends: tuple[str, ...]) -> Sheet:
    stripped = strip(mark + "".join(chain(*zip(lines, ends, strict=True))))
    page = read_page(stripped, None, own_name=INDEX_NAME)
    return Sheet(mark, lines, ends, stripped, page, frozenset(entry.line for entry in page.entries))


def _page(text: str) -> Page:
    return read_page(strip(text), None, own_name=INDEX_NAME)


def _column(line: str) -> int:
    """Tell how far a line is indented."""
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(_TAB))


# -- putting in ----------------------------------------------------------------------------------------------


def insert(content: bytes | None, line: str) -> bytes:
    """Put an entry's line at the end of the list that the index has; None: there is no index, this makes it.

    That is behind the last entry that has its line to itself, with what belongs to it. An index without entries gets
    it at its end, a blank line apart from prose. Where the model would not see it there (a fence that is never
    closed), it goes to the nearest place where it does.

    Raises:
        Refused: the index is not UTF-8, or no place was found where the entry is seen and all else stays.
    """
    return append(content or b"", line) or with_entry(read_sheet(content or b""), line).content


def with_entry(sheet: Sheet, line: str) -> Sheet:
    """Do what `insert` does with an index that is read already.

    Raises:
        Refused: no place was found where the entry is seen and all else stays.
    """
    after = _put_at_end(sheet, [line])
    if after is not None:
        return after
    raise Refused(
        f"{INDEX_NAME} has no place where a new entry would be seen: a comment, a code fence or a leading `---` "
        "takes it in, or it would change what else is seen",
        hint="close what is open there, then try again",
        file=INDEX_NAME,
    )


def _put_at_end(sheet: Sheet, new: Sequence[str]) -> Sheet | None:
    """Put an entry's lines in at the end of the list, or near it; None if they would be seen nowhere."""
    places = tuple(dict.fromkeys(_places(sheet)))
    for bringing in (False, True):
        for place in places:
            apart = place == len(sheet.lines) and not sheet.page.own and _ends_in_prose(sheet)
            after = _put(sheet, place, ["", *new] if apart else new, bringing=bringing)
            if after is not None:
                return after
    return None


def _put(sheet: Sheet, place: int, new: Sequence[str], *, bringing: bool = False) -> Sheet | None:
    """Put an entry's lines in at a place; None if the entry would not be seen there, or something else would change.

    `bringing`: what was hidden may come to light by it (a fence that now is part of the new entry's list item).
    """
    after = sheet.with_lines(place, new)
    numbers = range(place + 1, place + len(new) + 1)
    wished = [(entry.target, entry.title, entry.hook) for line in new for entry in _page(line).own]
    seen = [(entry.target, entry.title, entry.hook) for entry in after.page.own if entry.line in numbers]
    same = after.reads_as(sheet, new=numbers) or (bringing and after.shows_all_of(sheet, new=numbers))
    return after if seen == wished and same else None


def _places(sheet: Sheet) -> Iterator[int]:
    """Give places for a new entry, the best first. None of them tears apart what belongs together."""
    end = len(sheet.lines)
    last = max((entry.line for entry in sheet.page.own), default=0)
    if last:
        yield _behind_item(sheet, last)
    near_end = range(end, max(-1, end - MAX_PLACES), -1)
    front = max(0, sheet.front_line - 1)
    near_front = range(front, min(end, front + MAX_PLACES))
    for place in (*near_end, *near_front, 0):
        if not sheet._item(place, _DEEPER, linked=True):
            yield place


def _behind_item(sheet: Sheet, number: int) -> int:
    """Tell where the item, table, quote or paragraph ends that an entry's line begins or stands in."""
    line = sheet.lines[number - 1]
    sign = line.lstrip()[:1]
    bullet = _BULLET.match(line) is not None
    place = number
    while place < len(sheet.lines):
        below = sheet._item(place, _DEEPER, linked=True)
        if below:
            place += below
            continue
        following = sheet.lines[place]
        if not following.strip():
            break
        if sign in {"|", ">"}:
            goes_on = following.lstrip().startswith(sign)
        elif _UNDERLINE.fullmatch(following):
            goes_on = not bullet
        else:
            goes_on = not _BEGINS_BLOCK.match(following)
        if not goes_on:
            break
        place += 1
    return place


def _ends_in_prose(sheet: Sheet) -> bool:
    last = sheet.lines[-1] if sheet.lines else ""
    return bool(last.strip()) and _BULLET.match(last) is None and _column(last) < _DEEPER


# -- changing ------------------------------------------------------------------------------------------------


def has_own(content: bytes, target: str) -> bool:
    """Tell whether a line of the index is this target's own; a mention in another's line is none.

    Raises: Refused, when the index is not UTF-8.
    """
    return bool(read_sheet(content).own(target))


def replace_hook(content: bytes, target: str, old_hook: str, new_hook: str) -> bytes | None:
    """Give each entry of a target that says `old_hook` (blanks around it aside) the new one; None: none does.

    An entry without a hook gets one when `old_hook` is empty. Nothing but the hook changes; its dash comes and goes
    with it. None too where the change would make the index read otherwise.

    Raises:
        Refused: the index is not UTF-8.
    """
    sheet = read_sheet(content)
    old, new = old_hook.strip(), hook_text(new_hook)
    changed = sheet
    for entry in sheet.own(target):
        # What our pen wrote may stand there otherwise than it was said: escaped, on one line.
        if entry.hook in {old, hook_text(old_hook)} and entry.hook != new:
            text = _with_hook(changed.lines[entry.line - 1], entry, new)
            if text is not None:
                changed = changed.with_line(entry.line, text)
    lines = [
        number
        for number, (one, two) in enumerate(zip(sheet.lines, changed.lines, strict=True), 1)
        if one != two
    ]
    told = {entry.line: entry for entry in changed.own(target)}
    fits = all(number in told and told[number].hook in (new, _in_table(new)) for number in lines)
    fits = fits and {entry.line for entry in sheet.page.own} == {entry.line for entry in changed.page.own}
    return changed.content if lines and fits and changed.reads_as(sheet, gone=lines, new=lines) else None


def _with_hook(text: str, entry: Entry, new: str) -> str | None:
    """Write a line with another hook; None where it is not clear where the hook stands."""
    found = _links_to(text, entry.target)
    if not found:
        return None
    table = text.lstrip().startswith("|")
    body = text.rstrip()
    blanks = text[len(body) :]
    if table:
        body = body.rstrip("|").rstrip()
        new = _in_table(new)
    start = len(body) - len(entry.hook)
    if start < found[0].end or body[start:] != entry.hook or (table and not (entry.hook and new)):
        return None
    if entry.hook and new:
        return body[:start] + new + text[len(body) :]
    head = body[:start].rstrip()
    separator = _SEPARATOR_AT_END.search(head, max(found[0].end, len(head) - 3))
    if new:
        return f"{head} {new}{blanks}" if separator else f"{head}{_DASH}{new}{blanks}"
    return (head[: separator.start()].rstrip() if separator else head) + blanks


def _in_table(hook: str) -> str:
    return hook.replace("|", "\\|")


def retarget(content: bytes, line_number: int, old_target: str, new_target: str) -> bytes:
    """Point the links of a line that mean `old_target` (decoded, as an Entry has it) elsewhere.

    Only the targets' characters change; an anchor behind one stays. A line without such a link stays as it is.

    Raises:
        Refused: the index is not UTF-8, or no link can name the new target.
    """
    sheet = read_sheet(content)
    if not 0 < line_number <= len(sheet.lines):
        return content
    quoted = _quoted(new_target)
    text = sheet.lines[line_number - 1]
    for link in reversed(_links_to(text, old_target)):
        start = text.index(link.target, link.start + len(link.title) + 3)
        aim = quoted + _anchor(link.target, old_target)
        text = (
            text[:start]
            + (aim if local_path(aim) == new_target else quoted)
            + text[start + len(link.target) :]
        )
    return sheet.with_line(line_number, text).content


def _anchor(target: str, path: str) -> str:
    """Give what stands behind the path in a link's target, from its `#` on."""
    for found in re.finditer("#", target):
        if local_path(target[: found.start()]) == path:
            return target[found.start() :]
    return ""


def _links_to(text: str, target: str) -> list[Link]:
    """Give the links of a line that mean a target, in order."""
    found = [link for link in links(text) if not link.hidden]
    start = text.find("[")
    bullet = _BULLET.match(text)
    begins = bullet is not None and start >= 0 and not text[bullet.end() : start].strip(" \t*_~")
    if begins and not any(link.start == start for link in found):
        loose = loose_link(text, start)
        if loose is not None:
            found = [loose, *(link for link in found if link.start >= loose.end)]
    return [link for link in found if local_path(link.target) == target]


# -- taking out ----------------------------------------------------------------------------------------------


def remove(content: bytes, target: str) -> bytes | None:
    """Take out the entries of a target that have their line to themselves; None: there is none.

    What is indented below one goes with it, up to the next entry. Mentions stay, and so do entries in comments and
    code fences, which the model does not see.

    Raises:
        Refused: the index is not UTF-8.
    """
    sheet = before = read_sheet(content)
    # Once more, if what is taken out had opened a fence that hid another entry of the target.
    while numbers := [entry.line for entry in sheet.own(target)]:
        sheet = cut_entries(sheet, numbers) or sheet.without(numbers)
    return None if sheet is before else sheet.content


def cut_entries(sheet: Sheet, numbers: Sequence[int]) -> Sheet | None:
    """Take out entries by their lines, with what is indented below each; None if all else would not read as before."""
    whole = {at for number in numbers for at in range(number, number + sheet.below(number) + 1)}
    return sheet.cut(whole) or sheet.cut(numbers)


def drop_lines(content: bytes, numbers: Collection[int]) -> bytes:
    """Take lines out, whatever they are.

    Raises:
        Refused: the index is not UTF-8.
    """
    return read_sheet(content).without(frozenset(numbers)).content


# -- putting back --------------------------------------------------------------------------------------------


def put_back(content: bytes, former: bytes | None, losses: Sequence[Loss], *, mentions: bool = True) -> bytes:
    """Put entries that were lost back where they were; `former` are the bytes of the index that held them.

    A lost line comes back as it was, with what was indented below it if that went too, behind the nearest line before
    it that is still there, else before the nearest one after it. What `former` does not hold (None: it is not kept)
    is written anew from title and hook at the end of the list. An entry that is there again is left alone, and so
    are losses of other kinds. `mentions`: a mention in another entry's line is as good as an entry.

    Raises:
        Refused: the index is not UTF-8, or an entry's target cannot be named.
    """
    sheet = read_sheet(content)
    old = _former(former)
    lost = [loss for loss in losses if loss.code == "entry-lost" and loss.target]
    lines = {id(loss): _line_in(old, loss) for loss in lost}
    lost.sort(key=lambda loss: lines[id(loss)] or len(old.lines if old else ()) + 1)
    for loss in lost:
        target = loss.target or ""
        there = any(entry.target == target for entry in sheet.visible()) if mentions else sheet.own(target)
        if there:
            continue
        number = lines[id(loss)]
        after = _put_where_it_was(sheet, old, number) if old is not None and number is not None else None
        if after is None:
            line = entry_text(loss.title, target, loss.hook)
            after = read_sheet(insert(sheet.content, line))
        sheet = after
    return sheet.content


def _former(former: bytes | None) -> Sheet | None:
    try:
        return None if former is None else read_sheet(former)
    except Refused:
        return None


def _line_in(old: Sheet | None, loss: Loss) -> int | None:
    """Tell the line of the former index that is the lost entry's own."""
    own = [entry.line for entry in old.own(loss.target or "")] if old else []
    return loss.line if loss.line in own else next(iter(own), None)


def _put_where_it_was(sheet: Sheet, old: Sheet, number: int) -> Sheet | None:
    """Put a line of the former index back, with what was below it; None if it would not be seen."""
    now = _still_there(old, sheet)
    below = range(number + 1, number + old.below(number) + 1)
    stayed = next((now[at] - 1 for at in below if at in now), None)
    new = old.lines[number - 1 : number if stayed is not None else below.stop - 1]
    for place in (stayed, _place_behind(sheet, old, now, number), _place_before(old, now, number)):
        if place is not None:
            after = _put(sheet, place, new) or _put(sheet, place, new[:1])
            if after is not None:
                return after
    in_list = _BULLET.match(new[0]) is not None and not _column(new[0])
    return _put_at_end(sheet, new) if in_list else None


def _place_behind(sheet: Sheet, old: Sheet, now: Mapping[int, int], number: int) -> int | None:
    """Give the place behind the nearest line before, and behind what is indented below that or set it apart."""
    anchor = next((at for at in range(number - 1, 0, -1) if at in now), None)
    if anchor is None:
        return None
    place = now[anchor]
    between = old.lines[anchor : number - 1]
    blank = next((at for at, line in enumerate(between) if line.strip()), len(between))
    if any(entry.line == place for entry in sheet.page.own):
        place += sheet.below(place)
        blank = blank if blank == len(between) else 0
    while blank and place < len(sheet.lines) and not sheet.lines[place].strip():
        place += 1
        blank -= 1
    return place


def _place_before(old: Sheet, now: Mapping[int, int], number: int) -> int | None:
    return next((now[at] - 1 for at in range(number + 1, len(old.lines) + 1) if at in now), None)


def _still_there(old: Sheet, new: Sheet) -> dict[int, int]:
    """Map lines of the former index to those of today's that are the same: the same entry, or the same text.

    Of several that are alike the first is the first, and so on, if there are as many as there were; else nobody knows
    which of them went. Blank lines are no landmark.
    """
    was, now = _landmarks(old), _landmarks(new)
    return {
        before: after
        for word, lines in was.items()
        if len(lines) == len(now.get(word, ()))
        for before, after in zip(lines, now[word], strict=True)
    }


def _landmarks(sheet: Sheet) -> dict[tuple[str, str], list[int]]:
    targets = {entry.line: entry.target for entry in sheet.page.own}
    found: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(sheet.lines, 1):
        if line.strip():
            word = ("entry", targets[number]) if number in targets else ("text", line.strip())
            found.setdefault(word, []).append(number)
    return found
