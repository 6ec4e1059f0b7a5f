"""The offline verbs: any directory, without a daemon, with the shapes of the wire."""

import hashlib
import json
import os
from pathlib import Path

import jsonschema
import pytest

from zcsyncd.bus.requests import describe

ODD_MEMORY = "odd-memory"


def schema(method: str) -> dict:
    """Give the JSON Schema of a method's result."""
    methods = describe()["methods"]
    return methods[method]["result"]


def state(directory) -> dict:
    """Give every path below a directory with its times and bytes."""
    found = {}
    for place, _, files in os.walk(directory):
        for file in files:
            path = os.path.join(place, file)
            status = os.lstat(path)
            whole = hashlib.sha256(Path(path).read_bytes()).hexdigest() if os.path.isfile(path) else None
            found[path] = (status.st_mtime_ns, status.st_size, whole)
        found[place] = os.stat(place).st_mtime_ns
    return found


@pytest.mark.parametrize("sample", ["flat-types", "index-one-level-up"])
def test_a_healthy_sample_is_silent(shell, samples, sample):
    """On a directory in order `audit` says nothing at warning and above."""
    done = shell.run("audit", str(samples / sample), "--fail-on", "warning")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert shell.json("audit", str(samples / sample)) == {"total": 0, "findings": []}


def test_the_one_unindexed_fact_is_named(shell, samples):
    """`audit` names the one fact of the sample that no entry reaches."""
    answer = json.loads(shell.run("audit", str(samples / "en-one-unindexed"), "--json").stdout)
    unindexed = [one["file"] for one in answer["findings"] if one["code"] == "fact-unindexed"]
    assert unindexed == ["nacufuhogu_tesimuro.md"]
    assert {one["file"] for one in answer["findings"]} == {"nacufuhogu_tesimuro.md"}
    done = shell.run("audit", str(samples / "en-one-unindexed"))
    assert done.returncode == 0
    assert "warning fact-unindexed  nacufuhogu_tesimuro.md" in done.stdout


def test_the_one_invalid_front_matter_is_named(shell, samples):
    """`audit` names the one fact of the sample whose front matter is no YAML, with its line, and fails."""
    done = shell.run("audit", str(samples / "ko-clean"))
    assert done.returncode == 1
    heads = [line for line in done.stdout.splitlines() if line.startswith(("error", "warning"))]
    assert heads == ["error front-matter-invalid  bevefohu-zigose-ropuzi-lodamedopo.md:3"]
    assert done.stdout.splitlines()[-1] == f"1 error in {samples / 'ko-clean'}"


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("info", 1)])
def test_fail_on_sets_the_exit_code(shell, samples, fail_on, code):
    """Only findings of the named severity or graver make the exit code 1."""
    done = shell.run("audit", str(samples / "en-one-unindexed"), "--fail-on", fail_on)
    assert done.returncode == code


def test_infos_only_when_asked_for(shell, samples):
    """`--all` shows infos, too; without it they are not shown."""
    words = ("audit", str(samples / "es-no-front-matter"))
    assert "\ninfo " not in "\n" + shell.run(*words).stdout
    assert "\ninfo body-over-recall" in "\n" + shell.run(*words, "--all").stdout


@pytest.mark.parametrize(
    "sample",
    [
        "ko-clean",
        "es-no-front-matter",
        "en-one-unindexed",
        "index-one-level-up",
        "flat-types",
        "blockquote-preamble",
    ],
)
def test_answers_have_the_shapes_of_the_wire(shell, samples, sample):
    """Without a daemon, `audit`, `memory list`, `read` and `index` fit the schemas that `describe` gives."""
    directory = str(samples / sample)
    audit = json.loads(shell.run("audit", directory, "--all", "--json").stdout)
    jsonschema.validate(audit, schema("audit.get"))
    facts = shell.json("memory", "list", "--dir", directory)
    jsonschema.validate(facts, schema("memory.list"))
    assert facts["total"] == len(facts["facts"]) > 0
    jsonschema.validate(shell.json("memory", "index", "--dir", directory), schema("memory.index"))
    name = facts["facts"][0]["file"]
    fact = shell.json("memory", "read", name, "--dir", directory)
    jsonschema.validate(fact, schema("memory.read"))
    assert fact["absolutePath"] == os.path.join(directory, name)


def odd_memory(place):
    """Make a directory with much that is no healthy memory."""
    memory = place / ODD_MEMORY
    memory.mkdir()
    (memory / "MEMORY.md").write_bytes(b"\xff\xfe\x00")
    (memory / "dir.md").mkdir()
    os.mkfifo(memory / "fifo.md")
    os.symlink("/nowhere", memory / "broken.md")
    os.symlink(memory, memory / "loop")
    (memory / "two\nlines.md").write_text("x")
    (memory / "记忆 ü.md").write_text("---\nname: [\n---\n")
    (memory / "binary.md").write_bytes(bytes(range(256)) * 4)
    (memory / "huge.md").write_bytes(b"x" * (5 * 1024 * 1024 + 1))
    (memory / "nul.md").write_bytes(b"---\nname: a\0b\n---\n")
    (memory / os.fsdecode(b"not-utf8-\xff.md")).write_text("x")
    (memory / "deep").mkdir()
    (memory / "deep" / "MEMORY.md").write_text("no index here")
    return memory


def test_an_odd_directory_is_findings_not_tracebacks(shell):
    """FIFOs, directories called x.md, huge, binary and oddly named files are told, and nothing is changed."""
    memory = odd_memory(shell.place)
    before = state(memory / "deep"), sorted(os.listdir(memory))
    for words in (("audit", str(memory), "--all"), ("memory", "list", "--dir", str(memory))):
        for form in ((), ("--json",)):
            done = shell.run(*words, *form)
            assert done.returncode in {0, 1}, done.stderr
            assert done.stderr == ""
            assert "\n" in done.stdout
            assert "two\nlines" not in done.stdout
    assert before == (state(memory / "deep"), sorted(os.listdir(memory)))
    for name in (
        "fifo.md",
        "dir.md",
        "huge.md",
        "binary.md",
        "broken.md",
        "two\nlines",
        "../x",
        "deep/MEMORY.md",
    ):
        done = shell.run("memory", "read", name, "--dir", str(memory))
        assert done.returncode in {0, 5, 7}
        assert "Traceback" not in done.stderr
    done = shell.run("memory", "index", "--dir", str(memory))
    assert done.returncode in {0, 7}


def test_reading_changes_nothing(shell, samples, tmp_path):
    """Auditing and reading leave every byte and every time of a directory as it was."""
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(samples / "en-one-unindexed", copy)
    before = state(copy)
    shell.run("audit", str(copy), "--all")
    shell.run("memory", "list", "--dir", str(copy))
    shell.run("memory", "index", "--dir", str(copy))
    assert state(copy) == before


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "{}"),
        ("memory", "list", "--dir", "{}"),
        ("memory", "index", "--dir", "{}"),
        ("memory", "read", "x", "--dir", "{}"),
    ],
)
def test_a_directory_that_is_none_is_not_found(shell, words):
    """A path that does not exist, or is a file, gives exit code 5 and is named."""
    file = shell.place / "file.md"
    file.write_text("x")
    for path in (shell.place / "none", file):
        done = shell.run(*(word.format(path) for word in words))
        assert done.returncode == 5
        assert done.stdout == ""
        assert str(path) in done.stderr


def test_the_working_directorys_memory_is_found(shell):
    """Without DIR the memory of the working directory is taken, by the rules of the layout."""
    cwd = shell.project()
    assert shell.run("audit", cwd=cwd).returncode == 5
    memory = shell.memory(cwd, "flat-types")
    assert shell.json("memory", "list", cwd=cwd)["dir"] == str(memory)
    assert shell.run("audit", cwd=cwd).returncode == 0
    assert (
        shell.run("audit", str(memory.parent.relative_to(shell.home)) + "/memory", cwd=shell.home).returncode
        == 0
    )


def test_a_memory_without_index_shows_none(shell):
    """`memory index` without an index is empty: the model is shown nothing."""
    memory = shell.place / "m"
    memory.mkdir()
    answer = shell.json("memory", "index", "--dir", str(memory))
    assert (answer["text"], answer["textHash"], answer["contentHash"]) == ("", None, None)
    assert "no index" in shell.run("memory", "index", "--dir", str(memory)).stdout
    assert "no facts in" in shell.run("memory", "list", "--dir", str(memory)).stdout


def test_muted_and_ignored_hold_without_a_daemon(shell, samples):
    """What the configuration mutes or ignores is not told by the offline audit either."""
    directory = samples / "en-one-unindexed"
    (shell.place / "config.yaml").write_text(
        f'mute:\n  "*": [front-matter-missing]\n  {directory}: [fact-unindexed]\n'
    )
    assert shell.json("audit", str(directory))["total"] == 0
    (shell.place / "config.yaml").write_text("ignore: [nacufuhogu_*.md]\n")
    assert shell.json("audit", str(directory))["total"] == 0


def test_a_long_body_is_cut_and_told_where_the_rest_is(shell):
    """`memory read` shows what recall shows and says where the rest begins; --full gives all."""
    memory = shell.place / "m"
    memory.mkdir()
    body = "".join(f"line {number}\n" for number in range(1, 301))
    (memory / "long.md").write_text(f"---\nname: long\ndescription: d\n---\n{body}")
    cut = shell.json("memory", "read", "long", "--dir", str(memory))
    assert (cut["truncated"], cut["restLine"]) == ("lines", 205)
    text = shell.run("memory", "read", "long", "--dir", str(memory)).stdout
    assert "line 200" in text
    assert "line 201" not in text
    assert "from line 205" in text
    assert "line 300" in shell.run("memory", "read", "long", "--dir", str(memory), "--full").stdout


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("nacufuhogu_tesimuro", "not seen in the prompt"),
        ("feedback_cesos_ti_lepiri_mema_sibep", "seen in the prompt"),
    ],
)
def test_why_a_fact_is_seen_without_a_daemon(shell, samples, name, seen):
    """`memory read --why` tells each place, in words and in the shape of the wire; without --why there is no such member."""
    words = ("memory", "read", name, "--dir", str(samples / "en-one-unindexed"))
    answer = shell.json(*words, "--why")
    jsonschema.validate(answer, schema("memory.read"))
    assert answer["visible"]["prompt"] is seen.startswith("seen")
    assert f"\n{seen}: " in shell.run(*words, "--why").stdout
    assert "visible" not in shell.json(*words)
