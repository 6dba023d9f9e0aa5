"""Who may ask: an HMAC of the request under a secret that the app and the control plane share.

The signature is good for a minute before and after its time. Within it the same request may be sent again by whoever
has seen it; that changes nothing, because every call is repeatable: a second `create` finds the first one's sandbox
(or that it was stopped), `extend` counts again from now, `snapshot`, `stop` and `delete-snapshot` find it done. The
nonce keeps two requests of one second apart, in the logs, too.
"""

import hashlib
import hmac
import re

from .refusal import Refusal

WINDOW_SECONDS = 60
MIN_SECRET_LENGTH = 20


def secrets_of(environment) -> list:
    """The secret, and while it is being replaced the one before it."""
    names = ("GANTRY_MODAL_SECRET", "GANTRY_MODAL_SECRET_BEFORE")
    secrets = [environment[name] for name in names if environment.get(name)]
    if not secrets or any(len(secret) < MIN_SECRET_LENGTH for secret in secrets):
        raise ValueError(f"Set GANTRY_MODAL_SECRET to at least {MIN_SECRET_LENGTH} characters")
    return secrets


def signature(secret: str, method: str, path: str, body: bytes, at: str, nonce: str) -> str:
    digest = hashlib.sha256(body).hexdigest()
    text = "\n".join(["gantry-modal-1", method, path, digest, at, nonce])
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def verify(secrets, method, path, body, headers, now) -> None:
    """By any of the secrets. `headers`: lower-case names."""
    at = headers.get("x-gantry-time", "")
    nonce = headers.get("x-gantry-nonce", "")
    given = headers.get("x-gantry-signature", "")
    if not re.fullmatch(r"[0-9]{1,12}", at) or not re.fullmatch(r"[0-9a-f]{32}", nonce):
        raise Refusal("unauthenticated", "The request is not signed")
    if not re.fullmatch(r"[0-9a-f]{64}", given):
        raise Refusal("unauthenticated", "The request is not signed")
    matches = [
        hmac.compare_digest(signature(secret, method, path, body, at, nonce), given)
        for secret in secrets
    ]
    if not any(matches):
        raise Refusal("unauthenticated", "The signature does not match: the secrets differ")
    # After the signature, so that only who knows the secret is told about clocks.
    if abs(now - int(at)) > WINDOW_SECONDS:
        raise Refusal("unauthenticated", "The signature is too old: check both clocks")
