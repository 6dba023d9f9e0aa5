"""The app's web endpoint: one POST per call, signed, of a known shape, with an answer of a known shape."""

import json
import time
import traceback

from . import auth
from .refusal import Refusal
from .shapes import SHAPES, WrongShape, check

MAX_BODY_BYTES = 16 * 1024 * 1024


def create_web(calls, secrets, translate=lambda error: None, now=time.time):
    """A WSGI app. `calls`: by name, from body to answer. `translate`: the vendor's errors to refusals."""

    def web(environ, start_response):
        began = now()
        path = environ.get("PATH_INFO", "")
        try:
            status, answer = 200, serve(environ, path)
        except Refusal as refusal:
            status, answer = refusal.status, error_body(refusal.code, str(refusal))
        except Exception as error:
            status, answer = unexpected(error)
        print(json.dumps({"path": path, "status": status, "ms": round((now() - began) * 1000)}))
        content = json.dumps(answer).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(content)))]
        start_response(f"{status} {'OK' if status == 200 else 'Refused'}", headers)
        return [content]

    def serve(environ, path):
        body = read_body(environ)
        method = environ.get("REQUEST_METHOD", "")
        auth.verify(secrets, method, path, body, headers_of(environ), now())
        name = path.removeprefix("/v1/")
        if method != "POST" or name not in calls or environ.get("QUERY_STRING"):
            raise Refusal("invalid_request", "There is no such call")
        shapes = SHAPES["calls"][name]
        try:
            order = check(json.loads(body), shapes["request"])
        except (ValueError, WrongShape) as error:
            why = where_of(error)
            raise Refusal("invalid_request", f"Cannot read the request: {why}") from None
        return check(calls[name](order), shapes["answer"], "answer")

    def unexpected(error):
        refusal = translate(error)
        if refusal is not None:
            return refusal.status, error_body(refusal.code, str(refusal))
        traceback.print_exc()
        return 500, error_body("internal", f"The app has failed: {type(error).__name__}")

    return web


def read_body(environ) -> bytes:
    length = environ.get("CONTENT_LENGTH") or "0"
    if not length.isdigit() or int(length) > MAX_BODY_BYTES:
        raise Refusal("too_large", "The request is too large")
    return environ["wsgi.input"].read(int(length))


def headers_of(environ) -> dict:
    return {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }


def where_of(error) -> str:
    return str(error) if isinstance(error, WrongShape) else "it is not JSON"


def error_body(code: str, message: str) -> dict:
    return {"error": {"code": code, "message": message}}
