"""Command-line flags: which of them set a topology's fields, and all others left alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from bridge_plugins.errors import UsageError

#: Spellings of an option that takes a number, the first one printed → the name of what it sets.
Numbers = Mapping[tuple[str, ...], str]


def read(options: Sequence[str], numbers: Numbers, switches: Iterable[str] = ()) -> argparse.Namespace:
    """The numbers and switches among `options`; None and False for those that aren't there.

    Raises `UsageError` for an option whose value is no number.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for spellings, name in numbers.items():
        parser.add_argument(*spellings, dest=name, type=int)
    for switch in switches:
        parser.add_argument(switch, action="store_true")
    try:
        # A negative number is an option's value: nothing here is called -1.
        return parser.parse_known_args(list(options))[0]
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
