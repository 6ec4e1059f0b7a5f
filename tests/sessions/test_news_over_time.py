"""News over any course of events: what a session knows, plus its news, is what is there."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sessions.shared_memory import DIR, GRACE_MS, ME, OTHER, SharedMemory, after_compaction, told
from zcsyncd.memory.changes import changes
from zcsyncd.memory.index import entry_changes

FILES = [f"{letter}.md" for letter in "abcd"]

contents = st.dictionaries(st.sampled_from(FILES), st.sampled_from(["1", "2", "3", "s1~1", "s2~2"]))
entry_lists = st.dictionaries(st.sampled_from(FILES), st.sampled_from(["hook 1", "hook 2"]))
writers = st.sampled_from([ME, OTHER, None])
moves = st.one_of(
    st.tuples(st.just("facts"), contents, writers),
    st.tuples(st.just("index"), st.one_of(st.none(), entry_lists), writers),
    st.tuples(st.just("rename"), st.permutations(FILES), writers),
    st.tuples(st.just("wait"), st.sampled_from([1, GRACE_MS // 2, GRACE_MS]), st.none()),
    st.tuples(st.just("ask"), st.booleans(), st.none()),
    st.tuples(st.just("compact"), st.none(), st.none()),
)


class Course:
    """One course of events, and what a session that believes its news takes for true."""

    def __init__(self):
        self.shared = SharedMemory()
        self.shared.write({"a.md": "1", "b.md": "2"}, [("a.md", "T", "hook 1"), ("x.md", "T", "hook 1")])
        self.session = self.shared.session()
        self.files = self.present_files()
        self.entries = self.present_entries()
        self.start = (self.files, self.entries, [])
        self.own = []
        """Own writes since the start: a compaction takes nothing of them back."""

    def present_files(self):
        return {file: each.content_hash for file, each in self.shared.snapshot.facts.items()}

    def present_entries(self):
        found = self.shared.snapshot.index
        return {each.target: (each.title, each.hook) for each in found.entries} if found else {}

    def move(self, kind, what, who):
        if kind == "facts":
            gone = dict.fromkeys(self.shared.snapshot.facts)
            self.write({**gone, **what}, None, who)
        elif kind == "index":
            if what is None:
                self.write({}, None, who, index_file=None)
            else:
                self.write({}, [(target, "T", hook) for target, hook in sorted(what.items())], who)
        elif kind == "rename":
            old, new = what[:2]
            facts = self.shared.snapshot.facts
            if old in facts and new not in facts:
                self.write(
                    {old: None, new: facts[old].content_hash + "~" + facts[old].meaning_hash}, None, who
                )
        elif kind == "wait":
            self.shared.wait(what)
        elif kind == "ask":
            self.ask(confirm=what)
        else:
            self.compact()

    def write(self, facts, entries, who, **more):
        before = self.shared.snapshot
        self.shared.write(facts, entries, by=who, **more)
        if who == ME:
            after = self.shared.snapshot
            own = (changes(before, after), entry_changes(before.index, after.index), self.present_files())
            self.own.append(own)
            self.files, self.entries = self.with_own(self.files, self.entries, own)

    @staticmethod
    def with_own(files, entries, own):
        """Give what a session takes for true after a write of its own."""
        told, lines, present = own
        files, entries = dict(files), dict(entries)
        for change in told:
            if change.file == "MEMORY.md":
                continue
            if change.kind == "deleted":
                files.pop(change.file, None)
            elif change.kind == "renamed":
                files[change.file] = files.pop(change.from_, present[change.file])
            else:
                files[change.file] = present[change.file]
        for entry in lines.removed:
            entries.pop(entry.target, None)
        for entry in (*lines.added, *lines.changed):
            entries[entry.target] = (entry.title, entry.hook)
        return files, entries

    def ask(self, *, confirm):
        answer = self.shared.news(self.session)
        files, entries = self.believing(answer)
        held = {each.file for each in answer.told.held}
        there = {file: hash_ for file, hash_ in self.present_files().items() if file not in held}
        lines = {target: says for target, says in self.present_entries().items() if target not in held}
        assert files == there
        assert entries == lines
        self.check_exact(answer)
        if confirm:
            self.files, self.entries = files, entries
            self.session = told(self.session, answer)
            again = self.shared.news(self.session)
            assert (again.changes, again.text, again.told.held) == ((), "", answer.told.held)
            index = again.index
            assert (index.added, index.changed, index.removed) == ((), (), ())
        return answer

    def believing(self, answer):
        """Apply an answer to what the session takes for true."""
        files, entries = dict(self.files), dict(self.entries)
        rows = [row for row in answer.changes if row["file"] != "MEMORY.md"]
        for row in rows:
            if row["kind"] == "deleted":
                files.pop(row["file"])
            elif row["kind"] == "renamed":
                was = files.pop(row["from"])
                assert (
                    row["contentHash"] == was or row.get("updated") or same_meaning(row["contentHash"], was)
                )
        for row in rows:
            if row["kind"] == "added":
                assert row["file"] not in files
            if row["kind"] in ("updated", "file"):
                assert row["file"] in files
            if row["kind"] != "deleted":
                files[row["file"]] = row["contentHash"]
        for row in answer.index.removed:
            del entries[row["target"]]
        for row in answer.index.added:
            assert row["target"] not in entries
        for row in (*answer.index.added, *answer.index.changed):
            entries[row["target"]] = (row["title"], row["hook"])
        return files, entries

    def check_exact(self, answer):
        """Nothing is told twice in one answer, and nothing new that is held back."""
        named = [row["file"] for row in answer.changes]
        assert len(named) == len(set(named))
        held = {each.file for each in answer.told.held}
        assert held.isdisjoint(row["file"] for row in answer.changes if row["kind"] != "deleted")
        if not [row for row in answer.changes if row["kind"] != "file"] and not any(
            (answer.index.added, answer.index.changed, answer.index.removed)
        ):
            assert answer.text == ""

    def compact(self):
        """Begin again from the start: own writes are the session's own, whatever its model forgot."""
        self.session = replace(after_compaction(self.session), index_reads=self.session.index_reads)
        self.files, self.entries, _ = self.start
        for own in self.own:
            self.files, self.entries = self.with_own(self.files, self.entries, own)


def same_meaning(one, other):
    sense = {"s1": "1", "s2": "2"}
    return sense.get(one, one) == sense.get(other, other)


@settings(max_examples=300, deadline=None)
@given(st.lists(moves, max_size=14))
def test_what_is_known_and_the_news_are_what_is_there(course):
    """Over any writes, own and others', any confirmations, waits and compactions: what a session was told and
    confirmed, what it wrote itself, and the news give exactly what is there, but for halves that are held back.
    """
    run = Course()
    for move in course:
        run.move(*move)
    run.ask(confirm=True)
    run.shared.wait(GRACE_MS)
    answer = run.ask(confirm=True)
    assert answer.told.held == ()


@settings(max_examples=100, deadline=None)
@given(st.lists(moves.filter(lambda move: move[0] in ("facts", "index", "rename")), max_size=8), st.data())
def test_where_it_is_confirmed_makes_no_difference_to_what_is_true(course, data):
    """However the same events are split by confirmations, each split tells the whole difference."""
    runs = [Course(), Course()]
    for move in course:
        for run in runs:
            run.move(*move)
        if data.draw(st.booleans()):
            runs[0].ask(confirm=True)
    for run in runs:
        run.shared.wait(GRACE_MS)
        run.ask(confirm=True)
    assert (runs[0].files, runs[0].entries) == (runs[1].files, runs[1].entries)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(contents, entry_lists), max_size=8))
def test_own_writes_alone_are_no_news(course):
    """A session that is the only one to write hears nothing at all."""
    shared = SharedMemory()
    session = shared.session()
    for facts, entries in course:
        gone = dict.fromkeys(shared.snapshot.facts)
        shared.write({**gone, **facts}, [(each, "T", hook) for each, hook in sorted(entries.items())], by=ME)
    answer = shared.news(session, grace_ms=0)
    assert (answer.changes, answer.text, answer.count) == ((), "", 0)
    assert (answer.index.added, answer.index.changed, answer.index.removed) == ((), (), ())
    assert DIR in session.index_reads
