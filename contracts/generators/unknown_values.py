"""Checks that each enum of a generated client keeps a value that the document does not have."""

import enum
import importlib
import inspect
import sys

models = importlib.import_module(f"{sys.argv[1]}.models")
enums = [found for _, found in inspect.getmembers(models, inspect.isclass) if issubclass(found, enum.StrEnum)]
for found in enums:
    value = found("AddedLater")
    assert value == "AddedLater" and isinstance(value, found), found
print(f"{len(enums)} enums keep unknown values")
