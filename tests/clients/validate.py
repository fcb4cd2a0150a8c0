"""Checks what an agent wrote against the official JSON schema of the protocol.

    python validate.py SCHEMA WIRE…

Reads files of record.py. Prints a line for each violation and, last, how many lines of the agent it
checked. Exits with 1 if there was a violation.
"""

import functools
import json
import sys

import jsonschema

REQUEST_ID = {"type": ["integer", "string", "null"]}
ERROR_RESPONSE = {
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": REQUEST_ID,
        "error": {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
            "required": ["code", "message"],
            "additionalProperties": False,
        },
    },
    "required": ["jsonrpc", "id", "error"],
    "additionalProperties": False,
}


class Protocol:
    """The messages of the schema by method and by what they are."""

    def __init__(self, schema):
        self.definitions = schema["$defs"]
        self.named = {}
        for name, definition in self.definitions.items():
            if method := definition.get("x-method"):
                kinds = ("Request", "Response", "Notification")
                kind = next(kind for kind in kinds if name.endswith(kind))
                self.named[method, kind] = name

    @functools.cache
    def validator(self, method, kind):
        name = self.named.get((method, kind))
        if name is None:
            return None
        reference = {"$ref": f"#/$defs/{name}", "$defs": self.definitions}
        return jsonschema.Draft202012Validator(reference)

    def check(self, method, kind, value):
        validator = self.validator(method, kind)
        if validator is None:
            return [f"the protocol has no {kind.lower()} {method}"]
        return [f"{method}: {where(error)}" for error in validator.iter_errors(value)]


def where(error):
    return f"{error.json_path}: {error.message[:200]}"


def misshapen(message):
    """What is wrong with the frame around a request, a notification or a result."""
    if message.get("jsonrpc") != "2.0":
        yield "jsonrpc is not 2.0"
    known = {"jsonrpc", "id", "method", "params"} if "method" in message else {"jsonrpc", "id", "result"}
    if unknown := message.keys() - known:
        yield f"keys that JSON-RPC does not have: {sorted(unknown)}"


def check_wire(protocol, lines):
    """Yields, for each line of the agent, the list of its violations."""
    asked = {}
    for line in lines:
        record = json.loads(line)
        by_agent = record["by"] == "agent"
        try:
            message = json.loads(record["line"])
        except ValueError as error:
            if by_agent:
                yield [f"not JSON: {error}"]
            continue
        if not isinstance(message, dict):
            if by_agent:
                yield ["not a JSON object"]
            continue
        if not by_agent:
            if "method" in message and "id" in message:
                asked[json.dumps(message["id"])] = message["method"]
            continue
        yield check_message(protocol, message, asked)


def check_message(protocol, message, asked):
    if "method" in message:
        kind = "Request" if "id" in message else "Notification"
        return [*misshapen(message), *protocol.check(message["method"], kind, message.get("params"))]
    method = asked.pop(json.dumps(message.get("id")), None)
    if "error" in message:
        found = [where(error) for error in jsonschema.Draft202012Validator(ERROR_RESPONSE).iter_errors(message)]
        # What cannot be read has no id that it could be answered under.
        if method is None and message.get("id") is not None:
            found.append("answers nothing that was asked")
        return found
    if method is None:
        return ["answers nothing that was asked"]
    if "result" not in message:
        return ["neither result nor error"]
    return [*misshapen(message), *protocol.check(method, "Response", message["result"])]


def main():
    schema, *wires = sys.argv[1:]
    with open(schema, encoding="utf-8") as file:
        protocol = Protocol(json.load(file))
    checked = violations = 0
    for wire in wires:
        with open(wire, encoding="utf-8") as lines:
            for found in check_wire(protocol, lines):
                checked += 1
                violations += len(found)
                for violation in found:
                    print(f"{wire}: line {checked} of the agent: {violation}")
    print(f"{checked} lines checked, {violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
