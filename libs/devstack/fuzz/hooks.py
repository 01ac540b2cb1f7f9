"""JSON Schema counts 1.0 among the integers; to the services it is a number of another type."""

import schemathesis


def has_integral_float(value):
    if isinstance(value, dict):
        return any(map(has_integral_float, value.values()))
    if isinstance(value, list):
        return any(map(has_integral_float, value))
    return isinstance(value, float) and value.is_integer()


@schemathesis.hook
def filter_body(context, body):
    return not has_integral_float(body)
