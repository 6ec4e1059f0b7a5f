"""launchd's property list: the values arrive, and the table rejects whatever is wrong with a list."""

import plistlib

import pytest

from zcsyncd.errors import ConfigError
from zcsyncd.install.launchd import KEYS, MAY_BE_MISSING, agent, command_of, printed, problems
from zcsyncd.install.wanted import RUN_WORDS, Wanted

WRONG = {
    "Label": ["", 1, "zcsyncd", None],
    "ProgramArguments": [[], "/p -m zcsyncd", ["python"], ["/p", 1], {"0": "/p"}],
    "EnvironmentVariables": [["A=b"], {"A": 1}, {"A=": "b"}, {"": "b"}, "A=b"],
    "RunAtLoad": [False, 1, "true"],
    "KeepAlive": [
        True,
        {},
        {"Crashed": True},
        {"Crashed": 1, "SuccessfulExit": 0},
        {"Crashed": True, "SuccessfulExit": True},
    ],
    "ThrottleInterval": [0, -1, 10.0, "10", True],
    "ExitTimeOut": [0, -1, "10", True],
    "ProcessType": ["Interactive", "background", 1],
    "Umask": ["077", 77, 0o022, True],
    "StandardOutPath": ["", "log", 1],
    "StandardErrorPath": ["", "log", "~/log", 1],
}


@pytest.fixture
def values(shipped, wanted):
    """Give a right list, as values."""
    return plistlib.loads(agent(shipped("launchd", "local.zcsyncd.plist"), wanted))


def test_the_list_is_right_and_holds_what_was_wanted(values, wanted):
    """Command, variables and log are those that were wanted; the table finds nothing wrong."""
    assert problems(values) == []
    assert values["ProgramArguments"] == list(wanted.words)
    assert values["EnvironmentVariables"] == dict(wanted.environment)
    assert values["StandardErrorPath"] == wanted.error_log


def test_the_shipped_file_is_right_as_it_is(shipped):
    """The file in `service/launchd` fits the table by itself."""
    assert problems(plistlib.loads(shipped("launchd", "local.zcsyncd.plist"))) == []


def test_without_variables_there_is_no_key_for_them(shipped):
    """A service without variables has no empty dictionary."""
    made = agent(shipped("launchd", "local.zcsyncd.plist"), Wanted(("/p", *RUN_WORDS)))
    assert "EnvironmentVariables" not in plistlib.loads(made)


def test_every_key_has_mutants():
    """The table of wrong values has every key."""
    assert WRONG.keys() == KEYS.keys()


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, wrong in WRONG.items() for value in wrong])
def test_a_wrong_value_is_found(values, key, value):
    """Each value of a wrong type or meaning is rejected, and its key is named."""
    found = problems({**values, key: value})
    assert len(found) == 1
    assert found[0].startswith(f"{key} has to be ")


@pytest.mark.parametrize("key", [key for key in KEYS if key not in MAY_BE_MISSING])
def test_a_missing_key_is_found(values, key):
    """Each key that has to be there is missed."""
    del values[key]
    assert problems(values) == [f"{key} is missing"]


@pytest.mark.parametrize("key", ["Programm", "label", "Sockets", "UserName"])
def test_an_unknown_key_is_found(values, key):
    """A key that is misspelt, or that we never write, is rejected."""
    assert problems({**values, key: "x"}) == [f"{key} is not known"]


def test_another_order_is_found(values):
    """The keys stand in the table's order."""
    assert "order" in problems(dict(reversed(values.items())))[0]


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_what_is_no_dictionary_is_found(value):
    """Anything else than a dictionary is rejected."""
    assert problems(value) == ["it is no dictionary"]


def test_a_broken_template_is_not_written(wanted):
    """A template that does not fit the table gives an error, not a file."""
    with pytest.raises(ConfigError, match="Label is missing"):
        agent(plistlib.dumps({"RunAtLoad": True}), wanted)


def test_what_cannot_be_written_is_refused(shipped):
    """A control character is refused: XML cannot hold it."""
    with pytest.raises(ConfigError, match="U\\+0001"):
        agent(shipped("launchd", "local.zcsyncd.plist"), Wanted(("/p",), (("A", "\x01"),)))


@pytest.mark.parametrize(
    "text", [b"", b"<plist>", b"<plist><array/></plist>", plistlib.dumps({"ProgramArguments": 1})]
)
def test_what_is_no_list_of_ours_has_no_command(text):
    """Reading back what somebody else wrote gives nothing, and no error."""
    assert command_of(text) == []


def test_only_the_first_level_is_read():
    """`launchctl print` shows services in services; only the first level's values are this one's."""
    text = "gui/501/local.zcsyncd = {\n\tstate = running\n\tpid = 12\n\tdomain = gui/501 [1]\n\tenvironment = {\n\t\tpid = 9\n\t}\n}\n"
    assert printed(text) == {"state": "running", "pid": "12", "domain": "gui/501 [1]"}
