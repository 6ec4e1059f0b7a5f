"""`zcsyncd plugin`: put into hosts, looked at, taken out; every home is a temporary one."""

import json
import os
import stat
import sys

import pytest

import zcsyncd
from zcsyncd.errors import Refused
from zcsyncd.install import hosts_files, hosts_hooks, hosts_places, hosts_servers
from zcsyncd.install.hosts_files import BACKUP, edit
from zcsyncd.install.hosts_plugins import NAMES, Wish, plugin

HOOK_FILES = {"zcode": ".zcode/cli/config.json", "claude-code": ".claude/settings.json"}
SERVER_FILES = {
    "zcode": ".zcode/cli/config.json",
    "claude-code": ".claude.json",
    "pi": ".pi/agent/mcp.json",
    "omp": ".omp/agent/mcp.json",
}
EXTENSIONS = {"pi": ".pi/agent/extensions/zcsyncd.js", "omp": ".omp/agent/extensions/zcsyncd.js"}


@pytest.fixture
def env(tmp_path, monkeypatch):
    """Give the environment of a person who has all four hosts, and the extra for MCP."""
    for place in (".pi/agent", ".omp/agent", ".zcode", ".claude"):
        (tmp_path / place).mkdir(parents=True)
    monkeypatch.setattr(hosts_servers, "has_mcp", lambda: True)
    monkeypatch.setattr(hosts_hooks, "has_mcp", lambda: True)
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def files(home):
    return {
        path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()
    }


def target(name, home):
    table = SERVER_FILES if name.startswith("mcp:") else {**HOOK_FILES, **EXTENSIONS}
    return home / table[name.removeprefix("mcp:")]


@pytest.mark.parametrize("name", NAMES)
def test_in_and_out_leaves_nothing(env, tmp_path, name):
    """Installed, twice; reported as current; removed, twice; no file is left."""
    before = files(tmp_path)
    one = plugin(name, env)
    assert one.report().state == "absent"
    assert len(one.install(Wish())) == 1
    assert target(name, tmp_path).exists()
    assert one.install(Wish()) == []
    report = one.report()
    assert (report.state, report.version) == ("current", zcsyncd.__version__)
    assert report.path == str(target(name, tmp_path))
    assert one.remove()
    assert one.remove() == []
    assert one.report().state == "absent"
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", [name for name in NAMES if name not in EXTENSIONS])
@pytest.mark.parametrize(
    "text",
    [
        '{\n\t"theme": "dark",\n\t"n": 1.0, "big": 123456789012345678901234567890\n}',
        '{"a":1}\r\n',
        "{}",
        '\ufeff{"ü": ["x"]}\n',
        '{"hooks": {"enabled": true, "events": {"Stop": []}}, "mcp": {}, "mcpServers": {}}',
    ],
)
def test_settings_come_back_byte_by_byte(env, tmp_path, name, text):
    """What was there before us is there after us, with its mode; between, everything else stands in it."""
    if name.endswith("claude-code"):
        text = text.replace('{"enabled": true, "events": {"Stop": []}}', '{"Stop": []}')
    path = target(name, tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    before = files(tmp_path)
    plugin(name, env).install(Wish())
    assert path.read_bytes() != text.encode()
    assert (path.parent / (path.name + BACKUP)).read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    plugin(name, env).remove()
    assert files(tmp_path) == before


def test_hooks_and_server_share_a_file(env, tmp_path):
    """Put in in either order, taken out in either order: the person's file comes back."""
    path = tmp_path / HOOK_FILES["zcode"]
    path.parent.mkdir()
    path.write_text('{"a": 1}')
    for first, second in (("zcode", "mcp:zcode"), ("mcp:zcode", "zcode")):
        for out in ((first, second), (second, first)):
            for name in (first, second):
                plugin(name, env).install(Wish())
            assert [plugin(name, env).report().state for name in (first, second)] == ["current", "current"]
            for name in out:
                plugin(name, env).remove()
            assert path.read_text() == '{"a": 1}'
            assert not (path.parent / (path.name + BACKUP)).exists()


def test_the_server_tells_no_news_where_hooks_do(env, tmp_path):
    """Else the model would hear them twice."""
    plugin("mcp:zcode", env).install(Wish())
    args = json.loads((tmp_path / HOOK_FILES["zcode"]).read_text())["mcp"]["servers"]["zcsyncd"]["args"]
    assert "--no-news" not in args
    plugin("zcode", env).install(Wish())
    plugin("mcp:zcode", env).install(Wish())
    args = json.loads((tmp_path / HOOK_FILES["zcode"]).read_text())["mcp"]["servers"]["zcsyncd"]["args"]
    assert "--no-news" in args


def test_what_was_chosen_stays_chosen(env, tmp_path):
    """An upgrade asks nothing anew; --no-ask and --no-write take it back."""
    for name, on, off, mark in (
        ("claude-code", Wish(ask=True), Wish(ask=False), "PreToolUse"),
        ("mcp:pi", Wish(write=True), Wish(write=False), "--write"),
    ):
        path = target(name, tmp_path)
        plugin(name, env).install(Wish())
        assert mark not in path.read_text()
        plugin(name, env).install(on)
        plugin(name, env).install(Wish())
        assert mark in path.read_text()
        assert plugin(name, env).report().state == "current"
        plugin(name, env).install(off)
        assert mark not in path.read_text()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in EXTENSIONS])
@pytest.mark.parametrize("content", [b"{", b'{\n  // mine\n  "a": 1\n}', b"[]", b"\xff", b'{"a": 1, "a": 2}'])
def test_what_cannot_be_read_is_refused(env, tmp_path, name, content):
    """Neither install nor remove writes; status says so."""
    path = target(name, tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    for act in (lambda: plugin(name, env).install(Wish()), plugin(name, env).remove):
        with pytest.raises(Refused, match="is left as it is"):
            act()
    assert plugin(name, env).report().state == "unreadable"
    assert path.read_bytes() == content
    assert not (path.parent / (path.name + BACKUP)).exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_host_that_is_not_there_is_not_made(tmp_path, name):
    """A directory that we made would look like one."""
    env = {"HOME": str(tmp_path / "home"), "PATH": ""}
    with pytest.raises(Exception, match="there is no") as caught:
        plugin(name, env).install(Wish())
    assert caught.type.__name__ in ("NotFound", "Refused")
    assert files(tmp_path) == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_host_that_throws_our_entry_away_is_found_out(env, tmp_path, name):
    """It was installed, and is not there any more; installing again puts it back."""
    plugin(name, env).install(Wish())
    if name in EXTENSIONS:
        target(name, tmp_path).unlink()
    else:
        target(name, tmp_path).write_text('{"rewritten": true}')
    report = plugin(name, env).report()
    assert report.state == "thrown-away"
    assert f"zcsyncd plugin install {name}" in report.says[0]
    plugin(name, env).install(Wish())
    assert plugin(name, env).report().state == "current"


@pytest.mark.parametrize("name", ["pi", "zcode", "claude-code"])
def test_an_older_copy_is_found_out(env, tmp_path, name):
    """Its version differs from the package's; installing brings it up to date."""
    plugin(name, env).install(Wish())
    path = target(name, tmp_path)
    path.write_text(path.read_text().replace(zcsyncd.__version__, "0.0.1"))
    report = plugin(name, env).report()
    assert (report.state, report.version) == ("older", "0.0.1")
    assert plugin(name, env).install(Wish())
    assert plugin(name, env).report().state == "current"


def _zcode(tmp_path, change):
    path = tmp_path / HOOK_FILES["zcode"]
    value = json.loads(path.read_text())
    change(value["hooks"])
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "state", "says"),
    [
        (lambda hooks: hooks["events"].pop("Stop"), "incomplete", "Stop is missing"),
        (lambda hooks: hooks.update(enabled=False), "switched-off", "hooks.enabled is false"),
        (
            lambda hooks: hooks["events"]["PostToolUse"][0].update(matcher="*"),
            "changed",
            "not as it would be written",
        ),
    ],
)
def test_what_became_of_hooks(env, tmp_path, change, state, says):
    """Some thrown away, all switched off, changed by hand."""
    plugin("zcode", env).install(Wish())
    _zcode(tmp_path, change)
    report = plugin("zcode", env).report()
    assert report.state == state
    assert says in report.says[0]


@pytest.mark.parametrize("name", ["zcode", "claude-code", "mcp:pi"])
def test_an_interpreter_that_is_gone_is_found_out(env, tmp_path, name):
    """The virtual environment was removed, or made anew elsewhere."""
    plugin(name, env).install(Wish())
    path = target(name, tmp_path)
    path.write_text(path.read_text().replace(sys.executable, "/gone/bin/python"))
    report = plugin(name, env).report()
    assert report.state == "broken"
    assert "/gone/bin/python" in report.says[0]


def test_a_file_of_somebody_elses_is_not_overwritten(env, tmp_path):
    """An extension of our name without our first line is refused, and stays."""
    path = target("pi", tmp_path)
    path.parent.mkdir()
    path.write_text("export default () => {};\n")
    with pytest.raises(Refused, match="is not ours"):
        plugin("pi", env).install(Wish())
    assert plugin("pi", env).remove() == []
    assert path.read_text() == "export default () => {};\n"


def test_a_copy_that_was_changed_by_hand_is_kept_beside(env, tmp_path):
    """Where its version says that it is this one."""
    plugin("pi", env).install(Wish())
    path = target("pi", tmp_path)
    changed = path.read_text() + "// mine\n"
    path.write_text(changed)
    assert plugin("pi", env).report().state == "changed"
    plugin("pi", env).install(Wish())
    assert (path.parent / (path.name + BACKUP)).read_text() == changed


def test_a_link_in_their_dotfiles_stays_a_link(env, tmp_path):
    """Settings that lie elsewhere are edited there; nothing is replaced by a file."""
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text('{"a": 1}')
    link = tmp_path / HOOK_FILES["claude-code"]
    link.symlink_to(real)
    plugin("claude-code", env).install(Wish())
    assert link.is_symlink()
    assert "run_hook.py" in real.read_text()
    plugin("claude-code", env).remove()
    assert link.is_symlink()
    assert real.read_text() == '{"a": 1}'


def test_a_host_that_writes_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    """What changed between reading and writing is read anew; one that never rests is refused."""
    path = tmp_path / "settings.json"
    path.write_text('{"a": 1}')
    begun = []

    def change(value, _before):
        begun.append(value)
        if len(begun) == 1:
            path.write_text('{"a": 2}')
        return {**value, "ours": True}

    assert edit(str(path), change, lambda value: "ours" in value) == "updated"
    assert json.loads(path.read_text()) == {"a": 2, "ours": True}

    def restless(value, _before):
        path.write_text(json.dumps({"n": value.get("n", 0) + 1}))
        return {**value, "more": True}

    with pytest.raises(Refused, match="changes all the time"):
        edit(str(path), restless, lambda _value: True)
    assert "more" not in json.loads(path.read_text())
    assert hosts_files.value_of(str(path))["n"] >= 4


def test_variables_move_the_places(env, tmp_path):
    """Each host's own, and ours are carried into the command."""
    env |= {
        "PI_CODING_AGENT_DIR": str(tmp_path / "pi"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "cc"),
        "ZCSYNCD_STATE_DIR": str(tmp_path / "our state"),
    }
    (tmp_path / "pi").mkdir()
    (tmp_path / "cc").mkdir()
    for name, place in (
        ("pi", "pi/extensions/zcsyncd.js"),
        ("omp", "pi/extensions/zcsyncd.js"),
        ("claude-code", "cc/settings.json"),
        ("mcp:claude-code", "cc/.claude.json"),
        ("mcp:omp", "pi/mcp.json"),
    ):
        plugin(name, env).install(Wish())
        assert (tmp_path / place).exists()
    settings = (tmp_path / "cc/settings.json").read_text()
    assert "export ZCSYNCD_STATE_DIR=" in settings
    assert "our state" in settings
    assert json.loads((tmp_path / "pi/mcp.json").read_text())["mcpServers"]["zcsyncd"]["env"] == {
        "ZCSYNCD_STATE_DIR": str(tmp_path / "our state")
    }


@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("name", ["zcode", "claude-code"])
def test_a_plugin_folder_to_try(env, tmp_path, name, ask):
    """Filled in for this installation: manifest, hooks with the same command as in the settings, MCP server."""
    folder = plugin(name, env).path(Wish(ask=ask))
    manifest = ".zcode-plugin" if name == "zcode" else ".claude-plugin"
    assert set(files(tmp_path / os.path.relpath(folder, tmp_path))) == {
        f"{manifest}/plugin.json",
        "hooks/hooks.json",
        ".mcp.json",
    }
    with open(f"{folder}/{manifest}/plugin.json", encoding="utf-8") as file:
        assert json.load(file)["version"] == zcsyncd.__version__
    with open(f"{folder}/.mcp.json", encoding="utf-8") as file:
        assert json.load(file)["mcpServers"]["zcsyncd"]["args"][-1] == "--no-news"
    with open(f"{folder}/hooks/hooks.json", encoding="utf-8") as file:
        hooks = json.load(file)["hooks"]
    assert ("PreToolUse" in hooks) == ask
    plugin(name, env).install(Wish(ask=ask))
    settings = json.loads((tmp_path / HOOK_FILES[name]).read_text())["hooks"]
    assert (settings["events"] if name == "zcode" else settings) == hooks
    assert "@" not in json.dumps(hooks)
    plugin(name, env).remove()
    assert not os.path.exists(folder)


def test_the_folder_has_no_server_without_the_package(env, monkeypatch):
    """A client would complain of one that cannot start."""
    monkeypatch.setattr(hosts_hooks, "has_mcp", lambda: False)
    assert not os.path.exists(plugin("zcode", env).path(Wish()) + "/.mcp.json")
    monkeypatch.setattr(hosts_servers, "has_mcp", lambda: False)
    with pytest.raises(Refused) as caught:
        plugin("mcp:pi", env).install(Wish())
    assert "zcsyncd[mcp]" in caught.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_our_own_place_is_private(env, tmp_path, name):
    """Also where it is made before the daemon has ever run, which refuses one that others can enter."""
    plugin(name, env).path(Wish())
    plugin(name, env).install(Wish())
    for place in (".local/state/zcsyncd", ".local/state/zcsyncd/plugins"):
        assert stat.S_IMODE((tmp_path / place).stat().st_mode) == 0o700


def test_nothing_is_put_into_a_host_that_could_not_be_noted(env, tmp_path):
    """A place of ours that others can enter is refused before anything is written."""
    place = tmp_path / ".local/state/zcsyncd/plugins"
    place.mkdir(parents=True)
    place.chmod(0o755)
    before = files(tmp_path)
    for name in NAMES:
        with pytest.raises(Refused, match="open to others"):
            plugin(name, env).install(Wish())
    assert files(tmp_path) == before


def test_the_interpreter_is_named_as_it_was_called(env):
    """In a virtual environment it is a link, and what it points to does not have the package."""
    assert hosts_places.this_program(env).python == os.path.abspath(sys.executable)
    assert os.path.exists(hosts_places.this_program(env).script)


def test_set_up_puts_all_in_and_removal_takes_all_out(env, tmp_path):
    """As steps: what is planned is done, what is there is told; settings that cannot be read keep nothing else back."""
    from zcsyncd.install.hosts import HOSTS
    from zcsyncd.install.steps import step_for

    (tmp_path / SERVER_FILES["claude-code"]).write_text('{"n": 1}')
    before = files(tmp_path)
    steps = {host.name: step_for(host, env) for host in HOSTS}
    for step in steps.values():
        assert step.plan().startswith("put in")
        assert step.present() == ""
        assert step.put()
        assert step.plan() == ""
        assert step.present().startswith("take ")
    plugin("mcp:claude-code", env).install(Wish())
    assert "mcp:claude-code" in steps["claude-code"].present()
    settings = tmp_path / HOOK_FILES["claude-code"]
    text = settings.read_text()
    settings.write_text("{ broken")
    assert steps["claude-code"].plan().startswith("nothing: ")
    assert "is left as it is" in steps["claude-code"].put()[0]
    assert steps["claude-code"].present() == "take mcp:claude-code out of Claude Code"
    assert len(steps["claude-code"].take()) == 1
    settings.write_text(text)
    for step in steps.values():
        step.take()
        assert step.take() == []
    assert files(tmp_path) == before
