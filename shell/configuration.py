"""The settings of the interactive shell and their file. Each setting has a function that sets it in the console.

In: ``kvstore/config`` under XDG_CONFIG_HOME, an INI file with one section, ``[main]``. Out: a configured console. The
first conversation writes the file with every setting as a comment, as litecli does; scripts neither read nor write it.
An unknown or invalid setting is reported and ignored.
"""

from __future__ import annotations

import configparser
from pathlib import Path

from kvstore.integrations.saved_queries import get_config_folder

from .console import Console
from .render import MODES

#: The key bindings for editing.
KEYS = ("emacs", "vi")
_DEFAULT_CONFIG = """\
# Settings of `kvstore shell`. Remove the # from a line to change a setting.
[main]

# The format of results: {modes}.
# mode = table

# Print how long each statement took: on or off.
# timer = off

# The prompt; \\d is the name of the store.
# prompt = kvstore>

# Ask before DELETE FROM, and before an UPDATE of all documents: on or off.
# warn = on

# The key bindings for editing: {keys}.
# keys = emacs

# The command that shows long results, or off. The default is $PAGER, else less.
# pager = less -SRXF
"""


def set_mode(console: Console, value: str) -> None:
    """Set the format of results. Raises ValueError for an unknown format."""
    if value not in MODES:
        raise ValueError(f"there is no mode {value}; modes are {', '.join(MODES)}")
    console.mode = value


def set_keys(console: Console, value: str) -> None:
    """Set the key bindings for editing, ``emacs`` or ``vi``. Raises ValueError for any other value."""
    if value not in KEYS:
        raise ValueError(f"there are no key bindings {value}; use {' or '.join(KEYS)}")
    console.keys = value


def parse_switch(word: str) -> bool:
    """Parse ``on`` or ``off``; raises ValueError for any other word."""
    if word.lower() not in ("on", "off"):
        raise ValueError(f"expected on or off, not {word}")
    return word.lower() == "on"


def get_config_path() -> Path:
    """Return the path of the settings file: ``kvstore/config`` under XDG_CONFIG_HOME (default: ~/.config)."""
    return get_config_folder() / "config"


def configure(console: Console) -> None:
    """Configure a console from the settings file, which is created with the defaults if it is missing.

    A file that cannot be created or read is ignored; invalid contents are reported to the user.
    """
    path = get_config_path()
    parser = configparser.ConfigParser(interpolation=None)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_DEFAULT_CONFIG.format(modes=", ".join(MODES), keys=", ".join(KEYS)), encoding="utf-8")
        parser.read_string(path.read_text(encoding="utf-8"))
    except OSError:
        return  # an unwritable home must not cause a message at every start
    except (configparser.Error, UnicodeDecodeError) as error:
        console.notify(f"{path}: {error}")
        return
    settings = dict(parser["main"]) if parser.has_section("main") else {}
    for name, value in settings.items():
        try:
            _apply_setting(console, name, value)
        except ValueError as error:
            console.notify(f"{path}: {name}: {error}")


def _apply_setting(console: Console, name: str, value: str) -> None:
    """Apply a setting of the file to a console. Raises ValueError for an unknown name or an invalid value."""
    match name:
        case "mode":
            set_mode(console, value)
        case "timer":
            console.timer = parse_switch(value)
        case "prompt":
            console.prompt = value + " "
        case "warn":
            if not parse_switch(value):  # on is the default
                console.confirm = None
        case "keys":
            set_keys(console, value)
        case "pager":
            console.pager = None if value.lower() == "off" else value
        case _:
            raise ValueError("there is no such setting; settings are mode, timer, prompt, warn, keys, pager")
