"""What the app refuses, by Gantry's own codes."""

STATUS = {
    "invalid_request": 400,
    "unauthenticated": 401,
    "not_found": 404,
    "wrong_state": 409,
    "too_large": 413,
    "unprocessable": 422,
    "rate_limited": 429,
    "internal": 500,
    "sandbox_unavailable": 503,
}


class Refusal(Exception):
    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]
