"""ZCode's project memory: where it lies, and how its directories are named. Pure.

A memory directory is `<root>/memories/projects/<slug>-<hash16>/memory`. The hash cannot be inverted: which working
directory a name belongs to is learned, never guessed. The format is told in docs/format.md, the yardstick is
tests/vectors/paths.json.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from zcsyncd.layouts.layout import Caps, Layout, Root, Tree
from zcsyncd.layouts.nodepath import HERE, Platform, basename, is_absolute, join, js_trim, resolve, separator

NAME = "zcode"
MEMORY = "memory"
NO_SLUG = "project"
"""The slug of a workspace identity, and of a folder name without any of `a-z0-9._-`."""

STORAGE_VARIABLE = "ZCODE_STORAGE_DIR"
DATA_VARIABLE = "ZCODE_DATA_BASE_DIR"
DATA_SETTING = "dataBaseDir"

_SLUG_LENGTH = 48
_HASH_LENGTH = 16
_UNSAFE = re.compile("[^a-z0-9._-]+")
_NAME = re.compile(r"(.*)-([0-9a-f]{16})", re.DOTALL)


def directory_name(
    cwd: str, platform: Platform = HERE, identity: str | None = None, process_cwd: str | None = None
) -> tuple[str, str, str]:
    """Give slug, hash and name of the directory that ZCode makes for a working directory.

    `identity` is a workspace identity (remote workspaces); a blank one counts as none. `process_cwd` is what a
    relative `cwd` counts from.

    Raises: InvalidParams, for a relative `cwd` without `process_cwd`.
    """
    resolved = resolve(_as_node_reads(cwd) if platform == "posix" else cwd, platform, process_cwd)
    key = js_trim(identity or "")
    if key:
        slug = NO_SLUG
    else:
        slug = _slug(basename(resolved, platform))
        key = resolved.lower() if platform == "win32" else resolved
    digest = hashlib.sha256(_utf8(key)).hexdigest()[:_HASH_LENGTH]
    return slug, digest, f"{slug}-{digest}"


def directory_names(cwds: Iterable[str], platform: Platform = HERE) -> Mapping[str, tuple[str, ...]]:
    """Map directory names to the known working directories that they were made for, each once, in order."""
    found: dict[str, tuple[str, ...]] = {}
    for cwd in cwds:
        name = directory_name(cwd, platform)[2]
        if cwd not in found.get(name, ()):
            found[name] = (*found.get(name, ()), cwd)
    return found


def split_name(name: str) -> tuple[str, str] | None:
    """Split a directory's name into slug and hash; None when it is no such name. The whole name has to fit."""
    match = _NAME.fullmatch(name)
    return (match[1], match[2]) if match else None


def roots(
    env: Mapping[str, str],
    home: str,
    configured: Sequence[str],
    settings: object = None,
    /,
    platform: Platform = HERE,
) -> tuple[Root, ...]:
    """Give every place where ZCode may keep memory: the CLI's own first, then moved data directories, then ours.

    `settings` is the parsed `~/.zcode/v2/setting.json`. A relative path is passed over: what it means depends on
    the process that reads it.
    """
    home_store = join(platform, resolve(home, platform), ".zcode")
    storage = _absolute(env.get(STORAGE_VARIABLE), platform)
    found = [
        Root(NAME, _with_cli(storage or home_store, platform), STORAGE_VARIABLE if storage else "default")
    ]
    for base, source in (
        (data_base_dir(settings, platform), settings_file(home, platform)),
        (_absolute(env.get(DATA_VARIABLE), platform), DATA_VARIABLE),
    ):
        if base is not None:
            found.append(Root(NAME, join(platform, base, ".zcode", "cli"), source))
    found += [Root(NAME, resolve(path, platform), "config") for path in configured]
    return _each_once(found, platform)


def settings_file(home: str, platform: Platform = HERE) -> str:
    """Give the file in which ZCode's app keeps where the data directory was moved to."""
    return join(platform, resolve(home, platform), ".zcode", "v2", "setting.json")


def data_base_dir(settings: object, platform: Platform = HERE) -> str | None:
    """Give the moved data directory that ZCode's settings name; None when they name none that can be used."""
    value = settings.get(DATA_SETTING) if isinstance(settings, dict) else None
    return _absolute(value, platform) if isinstance(value, str) else None


def tree(root: str, platform: Platform = HERE) -> Tree:
    """Tell where memory directories lie below a root."""
    return Tree(NAME, join(platform, root, "memories", "projects"), (_is_project, _is_memory))


def directory(root: str, cwd: str, platform: Platform = HERE) -> str:
    """Give the memory directory that ZCode makes below a root for a working directory.

    Raises: InvalidParams, when `cwd` is not absolute.
    """
    return join(platform, tree(root, platform).base, directory_name(cwd, platform)[2], MEMORY)


def label(path: str, platform: Platform = HERE) -> str:
    """Give a short name for people: the slug, with some of the hash where the slug says nothing."""
    *_, outer, project, last = ("", "", *path.split(separator(platform)))
    name = project if last == MEMORY else last
    parts = split_name(name)
    if parts is None:
        # A copy that a project keeps, as in `app/.zcode/memory`, is called after the project.
        return (outer if name.startswith(".") and last == MEMORY else name) or path
    slug, digest = parts
    return f"{slug}-{digest[:8]}" if slug in ("", NO_SLUG) else slug


def _is_project(name: str) -> bool:
    return split_name(name) is not None


def _is_memory(name: str) -> bool:
    return name == MEMORY


def _slug(name: str) -> str:
    # The cut comes last: a slug may end in a dash, but never begin with one.
    return _UNSAFE.sub("-", name.lower()).strip("-")[:_SLUG_LENGTH] or NO_SLUG


def _as_node_reads(path: str) -> str:
    """Give the text that Node gets for a path whose bytes are not UTF-8: U+FFFD for what cannot be read."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte: from JSON
        return path


def _utf8(text: str) -> bytes:
    # JavaScript writes a lone surrogate as U+FFFD; Python would refuse it.
    return re.sub("[\ud800-\udfff]", "\ufffd", text).encode("utf-8")


def _absolute(value: str | None, platform: Platform) -> str | None:
    trimmed = js_trim(value or "")
    return resolve(trimmed, platform) if trimmed and is_absolute(trimmed, platform) else None


def _with_cli(path: str, platform: Platform) -> str:
    return path if basename(path, platform) == "cli" else join(platform, path, "cli")


def _each_once(found: Iterable[Root], platform: Platform) -> tuple[Root, ...]:
    kept: dict[str, Root] = {}
    for root in found:
        kept.setdefault(root.path.lower() if platform == "win32" else root.path, root)
    return tuple(kept.values())


ZCODE = Layout(
    name=NAME,
    index_name="MEMORY.md",
    ending=".md",
    caps=Caps(lines=200, units=25_000),
    audited=True,
    writable=True,
    variables=(STORAGE_VARIABLE, DATA_VARIABLE),
    roots=roots,
    tree=tree,
    directory=directory,
    label=label,
    settings_file=settings_file,
)
