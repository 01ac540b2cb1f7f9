"""What Schemathesis takes for a falsehood, or for the truth, and is not.

JSON Schema counts 1.0 among the integers; to the services it is a number of another type. A member that is named like a
pointer of a documented refusal is expected to be refused; it is an unknown member like any other, and those are ignored.
"""

import schemathesis


def has_integral_float(value):
    if isinstance(value, dict):
        return any(map(has_integral_float, value.values()))
    if isinstance(value, list):
        return any(map(has_integral_float, value))
    return isinstance(value, float) and value.is_integer()


def has_pointer_member(value):
    return isinstance(value, dict) and any(name.startswith("/") for name in value)


@schemathesis.hook
def filter_body(context, body):
    return not has_integral_float(body) and not has_pointer_member(body)
