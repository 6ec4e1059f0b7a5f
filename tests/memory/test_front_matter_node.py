"""What our pen writes, read by npm `yaml` on Node, which is what ZCode reads with: the very same text.

Needs Node with the package `yaml`: the variable ZCSYNCD_NODE_YAML names a `node_modules` that holds it, or Node finds
it by itself (NODE_PATH). Nothing is installed here.
"""

import json
import os
import random
import shutil
import subprocess

import pytest

from zcsyncd.memory.front_matter import compose, quoted

NODE = shutil.which("node")
# Read now: no test sees such variables.
MODULES = os.environ.get("ZCSYNCD_NODE_YAML")
TEXTS = 6_000
DOCUMENTS = 400
SEED = 20_261_130

SCRIPT = """
const path = require("node:path")
const modules = process.argv[2]
let yaml
try {
  yaml = modules ? require(path.join(modules, "yaml")) : require("yaml")
} catch (error) {
  console.log(JSON.stringify({ missing: error.code }))
  process.exit(0)
}
const read = (text) => {
  try {
    return { value: yaml.parse(text) }
  } catch (error) {
    return { error: String(error) }
  }
}
let input = ""
process.stdin.setEncoding("utf8")
process.stdin.on("data", (part) => (input += part))
process.stdin.on("end", () => console.log(JSON.stringify(JSON.parse(input).map(read))))
"""

ALPHABET = [
    *"abyYnNoOefx019 _.,:;-+?!#&*|><%@`'\"\\/()[]{}=~^$",
    *("\t", "\n", "\r", "\0", "\x07", "\x1b", "\x7f", "\x85", "\xa0", "\u200b", "\u2028", "\u2029", "\u202e", "\ufeff"),
    *("é", "ß", "中", "한", "\u0301", "\u3000", "\ue000", "\ufffd", "\ufffe", "\uffff", "🚀", "\U0010ffff"),
    *(": ", " #", "- ", "---", "...", "null", "true", "yes", "no", "on", "2024-01-01", "12:30", "1e3", "0x1f", "0o7", "<<"),
]  # fmt: skip


def read_on_node(texts, tmp_path):
    """Give what npm `yaml` makes of each text, in one process; skip where there is none."""
    if NODE is None:
        pytest.skip("no Node here")
    script = tmp_path / "read.cjs"
    script.write_text(SCRIPT, "utf-8")
    done = subprocess.run(
        [NODE, str(script), *([MODULES] if MODULES else [])],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=50,
        check=True,
    )
    answers = json.loads(done.stdout)
    if isinstance(answers, dict):
        pytest.skip("Node has no package `yaml`; ZCSYNCD_NODE_YAML names a node_modules that has")
    return answers


def random_texts():
    """Make text of odd pieces, long and short, the same at every run."""
    choice = random.Random(SEED)
    for number in range(TEXTS):
        yield "".join(choice.choices(ALPHABET, k=choice.randint(0, 1_500 if number % 500 == 0 else 8)))


def test_npm_yaml_reads_our_text(tmp_path):
    """Thousands of texts, each written as a value: npm `yaml` reads every one back as the same string."""
    texts = list(random_texts())
    answers = read_on_node([f"description: {quoted(text)}\nz: 1\n" for text in texts], tmp_path)
    for text, answer in zip(texts, answers, strict=True):
        assert answer == {"value": {"description": text, "z": 1}}


def random_value(choice, depth=0):
    """Make a value as others put it into front matter."""
    kind = choice.randrange(8 if depth < 2 else 6)
    if kind < 3:
        return "".join(choice.choices(ALPHABET, k=choice.randint(0, 6)))
    if kind == 3:
        return choice.choice([None, True, False])
    if kind == 4:
        return choice.choice([0, 7, -3, 2**53, 0.5, 1e21, 1e-7, -2.5e300])
    if kind == 5:
        return []
    if kind == 6:
        return [random_value(choice, depth + 1) for _ in range(choice.randint(0, 3))]
    return {f"k{number}": random_value(choice, depth + 1) for number in range(choice.randint(0, 3))}


def front_of(content):
    """Give the text between the fences of what we wrote."""
    return content.decode().removeprefix("---\n").partition("\n---\n")[0]


def test_npm_yaml_reads_what_others_wrote(tmp_path):
    """Over random front matter of others, kept or written anew, npm `yaml` reads our keys and their values."""
    choice = random.Random(SEED)
    wanted, fronts = [], []
    for number in range(DOCUMENTS):
        others = {f"o{at}": random_value(choice) for at in range(choice.randint(0, 4))}
        inner = {f"i{at}": random_value(choice) for at in range(choice.randint(0, 3))}
        lines = [f"{key}: {json.dumps(value)}" for key, value in others.items()]
        lines.insert(choice.randint(0, len(lines)), f"metadata: {json.dumps(inner)}")
        # A flow mapping all over is never kept as it is: everything is written anew.
        old = "\n".join(lines) if number % 2 else "{" + ", ".join(lines) + "}"
        name, description = ("".join(choice.choices(ALPHABET, k=5)) for _ in range(2))
        made = compose(
            f"---\n{old}\n---\n".encode(), name=name, description=description, type="user", body="B"
        )
        fronts.append(front_of(made))
        line = description.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
        metadata = {**inner, "node_type": "memory", "type": "user"}
        wanted.append({**others, "name": name, "description": line, "metadata": metadata})
    for value, answer in zip(wanted, read_on_node(fronts, tmp_path), strict=True):
        assert answer == {"value": value}


def test_npm_yaml_takes_our_tags(tmp_path):
    """Values that only a tag can write (`!!binary`, `!!set`) stay what they are when they are written anew."""
    old = "{b: !!binary aGk=, s: !!set {a, c}, t: !!omap [{a: 1}]}"
    made = compose(f"---\n{old}\n---\n".encode(), name="x", description="d", type="user", body="B")
    before, after = read_on_node([old, front_of(made)], tmp_path)
    assert {key: after["value"][key] for key in before["value"]} == before["value"]
