"""A language model that fills any JSON schema from the words of a prompt, the same way for the same prompt."""

import json
import re
import zlib

NAMES = ("Charles Babbage", "Analytical Engine", "Cleo Marsh", "Glass Winter", "Alan Turing", "Bletchley Park", "Punched card")


class Filling:
    """Answers a schema with the names in the prompt, else with names that its checksum chooses."""

    name = "filling"

    def complete(self, prompt, schema=None):
        seed = zlib.crc32(prompt.encode())
        names = [name for name in NAMES if re.search(re.escape(name), prompt, re.IGNORECASE)] or [NAMES[seed % len(NAMES)]]
        if schema is None:
            return f"So the answer is: {names[0]}."
        return json.dumps(_filled(schema, names, seed))


def _filled(schema, names, seed):
    if "enum" in schema:
        return schema["enum"][seed % len(schema["enum"])]
    if "const" in schema:
        return schema["const"]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _filled(schema[key][0], names, seed)
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: _filled(part, names, seed) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        count = max(schema.get("minItems", 0), min(len(names), schema.get("maxItems", 2)))
        return [
            _filled(schema.get("items", {"type": "string"}), names[place % len(names) :], seed + place) for place in range(count)
        ]
    if kind in ("integer", "number"):
        least, most = schema.get("minimum", 0), schema.get("maximum", 3)
        return least + seed % (most - least + 1)
    return seed % 2 == 0 if kind == "boolean" else names[0]
