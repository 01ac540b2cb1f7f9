"""Filters cases that Schemathesis classifies wrongly as valid or invalid.

In JSON Schema 1.0 is an integer; the services reject it. JSON Schema cannot express that page times page size is limited
to 10,000, nor that texts are trimmed before their length is checked and must not contain control characters.
"""

import unicodedata

import schemathesis

MAX_OFFSET = 10_000


def has_integral_float(value):
    if isinstance(value, dict):
        return any(map(has_integral_float, value.values()))
    if isinstance(value, list):
        return any(map(has_integral_float, value))
    return isinstance(value, float) and value.is_integer()


def exceeds_max_offset(query):
    try:
        return int(query.get("Page", 1)) * int(query.get("PageSize", 20)) > MAX_OFFSET
    except (TypeError, ValueError):
        return False


def has_untrimmed_text(value):
    if isinstance(value, dict):
        return any(map(has_untrimmed_text, value.values()))
    if isinstance(value, list):
        return any(map(has_untrimmed_text, value))
    return isinstance(value, str) and (
        value != value.strip() or any(unicodedata.category(char) == "Cc" for char in value)
    )


@schemathesis.hook
def filter_case(context, case):
    query = case.query or {}
    if has_integral_float(case.body) or exceeds_max_offset(query):
        return False
    # Texts of identity are trimmed, and the length of texts in CRM and agent is checked after trimming.
    trimmed_paths = ("/api/identity/", "/api/v1/my/", "/api/platform-manager/agent/")
    is_trimmed = case.path.startswith(trimmed_paths) or "/crm/" in case.path
    return not is_trimmed or not (has_untrimmed_text(case.body) or has_untrimmed_text(query))
