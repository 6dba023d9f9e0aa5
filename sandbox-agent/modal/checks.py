"""Checks of what needs no Modal: `python3 -m unittest checks`."""

import io
import json
import unittest
from pathlib import Path

import image
from gantry_modal import states
from gantry_modal.auth import secrets_of, signature, verify
from gantry_modal.refusal import STATUS, Refusal
from gantry_modal.shapes import SHAPES, WrongShape, check
from gantry_modal.web import MAX_BODY_BYTES, create_web

HERE = Path(__file__).parent
NOW = 1_763_280_000
NONCE = "00112233445566778899aabbccddeeff"


def signed(body, secret="one", at=NOW, method="POST", path="/v1/stop"):
    text = str(at)
    given = signature(secret, method, path, body, text, NONCE)
    return {"x-gantry-time": text, "x-gantry-nonce": NONCE, "x-gantry-signature": given}


class Auth(unittest.TestCase):
    def test_vectors(self):
        for each in json.loads((HERE / "vectors.json").read_text("utf-8")):
            secret, body = each["secret"], each["body"].encode()
            request = (each["method"], each["path"], body, each["time"], each["nonce"])
            self.assertEqual(signature(secret, *request), each["signature"])

    def test_secrets(self):
        new, before = "n" * 32, "b" * 32
        both = {"GANTRY_MODAL_SECRET": new, "GANTRY_MODAL_SECRET_BEFORE": before}
        self.assertEqual(secrets_of(both), [new, before])
        for bad in ({}, {"GANTRY_MODAL_SECRET": ""}, {"GANTRY_MODAL_SECRET": "short"}):
            with self.assertRaises(ValueError):
                secrets_of(bad)

    def test_any_of_the_secrets(self):
        verify(["two", "one"], "POST", "/v1/stop", b"{}", signed(b"{}"), NOW)

    def test_refusals(self):
        good = signed(b"{}")
        right = {"secrets": ["one"], "method": "POST", "path": "/v1/stop", "body": b"{}"}
        right |= {"headers": good, "now": NOW}
        cases = {
            "another secret": {"secrets": ["two"]},
            "no secret at all": {"secrets": []},
            "another method": {"method": "PUT"},
            "another path": {"path": "/v1/create"},
            "another body": {"body": b"{ }"},
            "another time": {"headers": {**good, "x-gantry-time": str(NOW + 1)}},
            "another nonce": {"headers": {**good, "x-gantry-nonce": "f" * 32}},
            "too old": {"now": NOW + 61},
            "too new": {"now": NOW - 61},
            "nothing": {"headers": {}},
            "not ASCII": {"headers": {**good, "x-gantry-signature": "é" * 64}},
            "no digits": {"headers": {**good, "x-gantry-time": "٣"}},
        }
        for name, wrong in cases.items():
            with self.subTest(name), self.assertRaises(Refusal) as raised:
                verify(**{**right, **wrong})
            self.assertEqual(raised.exception.code, "unauthenticated")
        verify(**{**right, "now": NOW + 60})


class Shapes(unittest.TestCase):
    def test_stop(self):
        shape = SHAPES["calls"]["stop"]["request"]
        good = {"label": "test", "sessionId": "ses_1", "generation": 1}
        self.assertEqual(check(good, shape), good)
        for bad in (
            [],
            {**good, "more": 1},
            {**good, "generation": 0},
            {**good, "generation": True},
            {**good, "generation": 1.0},
            {**good, "sessionId": "ses_1\n"},
            {**good, "sessionId": "ses_1/../x"},
            {key: value for key, value in good.items() if key != "label"},
        ):
            with self.subTest(bad), self.assertRaises(WrongShape):
                check(bad, shape)

    def test_error_codes_are_those_of_the_app(self):
        codes = SHAPES["$defs"]["error"]["properties"]["error"]["properties"]["code"]["enum"]
        self.assertEqual(set(codes), set(STATUS))

    def test_only_what_is_understood_is_used(self):
        known = {"$ref", "type", "enum", "pattern", "maxLength", "minimum", "maximum"}
        known |= {"minItems", "maxItems", "items"}
        known |= {"properties", "required", "additionalProperties"}

        def walk(schema):
            self.assertLessEqual(set(schema), known)
            for each in schema.get("properties", {}).values():
                walk(each)
            if "items" in schema:
                walk(schema["items"])

        for each in SHAPES["$defs"].values():
            walk(each)
        for call in SHAPES["calls"].values():
            walk(call["request"])
            walk(call["answer"])


class States(unittest.TestCase):
    def test_status(self):
        self.assertEqual(states.read_status("none\n"), ("queued", None))
        self.assertEqual(states.read_status("preparing\n"), ("queued", None))
        self.assertEqual(states.read_status("running\n"), ("running", None))
        self.assertEqual(states.read_status("exited\nlast\n"), ("exited", "The agent ended: last"))
        for output in ("", "sh: not found"):
            with self.assertRaises(ValueError):
                states.read_status(output)

    def test_extension(self):
        day = states.VENDOR_SECONDS
        self.assertEqual(states.extension(0, 0, 60), (60, True))
        self.assertEqual(states.extension(0, 0, day), (day, True))
        self.assertEqual(states.extension(0, 60_000, day), (day - 60, False))
        self.assertEqual(states.extension(0, (day + 5) * 1000, 60), (0, False))

    def test_scrubbed_bytes(self):
        self.assertEqual(states.scrubbed_bytes('{"bytes": 5}\n'), 5)
        for output in ("", "[]", '{"bytes": true}', '{"hit": {}}', "not json"):
            self.assertIsNone(states.scrubbed_bytes(output))

    def test_names_fit(self):
        body = {"sessionId": "ses_" + "z" * 30, "generation": 999999999}
        body |= {"organisationId": "org_" + "z" * 20, "snapshotId": "snp_" + "z" * 20}
        self.assertLessEqual(len(states.name_of(body)), 64)
        self.assertLessEqual(len(states.snapshot_name(body)), 64)


class Web(unittest.TestCase):
    def ask(self, calls, body=b"{}", path="/v1/stop", headers=None, **more):
        headers = signed(body, path=path) if headers is None else headers
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path, "CONTENT_LENGTH": str(len(body))}
        for name, value in headers.items():
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
        environ |= {"wsgi.input": io.BytesIO(body), **more}
        seen = []
        web = create_web(calls, ["one"], now=lambda: NOW)
        [content] = web(environ, lambda status, headers: seen.append(status))
        return int(seen[0][:3]), json.loads(content)

    def refusal(self, *args, **more):
        status, answer = self.ask(*args, **more)
        check(answer, SHAPES["$defs"]["error"])
        return status, answer["error"]["code"]

    def test_answers(self):
        body = json.dumps({"label": "test", "sessionId": "ses_1", "generation": 1}).encode()
        self.assertEqual(self.ask({"stop": lambda order: {}}, body), (200, {}))

    def test_refusals(self):
        calls = {"stop": lambda order: {}}
        self.assertEqual(self.refusal(calls, headers={}), (401, "unauthenticated"))
        self.assertEqual(self.refusal(calls, b"{"), (400, "invalid_request"))
        self.assertEqual(self.refusal(calls), (400, "invalid_request"))
        self.assertEqual(self.refusal(calls, path="/v1/none"), (400, "invalid_request"))
        self.assertEqual(self.refusal(calls, path="/v1/get"), (400, "invalid_request"))
        self.assertEqual(self.refusal(calls, QUERY_STRING="a=1"), (400, "invalid_request"))
        large = str(MAX_BODY_BYTES + 1)
        self.assertEqual(self.refusal(calls, CONTENT_LENGTH=large), (413, "too_large"))
        self.assertEqual(self.refusal(calls, CONTENT_LENGTH="-1"), (413, "too_large"))

    def test_a_wrong_request_is_not_repeated(self):
        order = {"label": "a secret value", "sessionId": "ses_1", "generation": 1}
        answer = self.ask({"stop": lambda order: {}}, json.dumps(order).encode())
        self.assertNotIn("a secret value", json.dumps(answer))


class Programs(unittest.TestCase):
    def test_image_has_what_the_lock_file_names(self):
        text = "\n".join(image.commands())
        for program in ("node", "opencode", "rg"):
            self.assertIn(f"package/bin/{program}", text)
        self.assertRegex(text, r"opencode-linux-x64-baseline-[0-9.]+\.tgz")
        self.assertEqual(text.count("sha512sum -c"), 3)


if __name__ == "__main__":
    unittest.main()
