"""The requests and answers of the app, from shapes.json. The part of JSON Schema that is used there, and no more."""

import json
import re
from pathlib import Path

SHAPES = json.loads((Path(__file__).parent / "shapes.json").read_text("utf-8"))

TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


class WrongShape(Exception):
    """Says where, never what: a request holds secrets."""


def check(value, schema, where="body"):
    """`value`, if it has the shape."""
    schema = resolve(schema)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(TYPES[name](value) for name in types):
        raise WrongShape(f"{where} must be {' or '.join(types)}")
    if "enum" in schema and value not in schema["enum"]:
        raise WrongShape(f"{where} must be one of {schema['enum']}")
    for kind, check_kind in ((str, check_string), (int, check_number), (list, check_array)):
        if isinstance(value, kind):
            check_kind(value, schema, where)
    if isinstance(value, dict):
        check_object(value, schema, where)
    return value


def resolve(schema):
    while "$ref" in schema:
        schema = SHAPES["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return schema


def check_string(value, schema, where):
    # In Python alone `$` also matches before a line end.
    pattern = re.sub(r"\$$", r"\\Z", schema.get("pattern", ""))
    if re.search(pattern, value) is None:
        raise WrongShape(f"{where} has another form")
    if len(value) > schema.get("maxLength", len(value)):
        raise WrongShape(f"{where} is too long")


def check_number(value, schema, where):
    if value < schema.get("minimum", value) or value > schema.get("maximum", value):
        raise WrongShape(f"{where} is out of range")


def check_array(value, schema, where):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        raise WrongShape(f"{where} has another number of items")
    for index, item in enumerate(value):
        check(item, schema.get("items", {}), f"{where}[{index}]")


def check_object(value, schema, where):
    fields = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            raise WrongShape(f"{where}.{name} is missing")
    for name, item in value.items():
        if name in fields:
            check(item, fields[name], f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            raise WrongShape(f"{where} has a field too many")
