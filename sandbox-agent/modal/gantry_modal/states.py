"""How a sandbox is called, and what is made of what it says."""

import json

# Modal ends a sandbox after this time, whatever it is told later.
VENDOR_SECONDS = 24 * 3600

# How keep.sh ends, and what Modal says of its own doing.
ENDINGS = {
    10: "Its lifetime is over",
    11: "The agent ended",
    12: "No agent was launched in it",
    124: f"Modal ends a sandbox after {VENDOR_SECONDS // 3600} hours",
    137: "It was terminated",
}


def name_of(body) -> str:
    """Modal lets one running sandbox of an app have it."""
    return f"{body['sessionId']}.{body['generation']}"


def snapshot_name(body) -> str:
    return f"{body['organisationId']}.{body['snapshotId']}"


def tags_of(body, role, started_at) -> dict:
    return {
        "gantry": body["label"],
        "organisation": body["organisationId"],
        "session": body["sessionId"],
        "generation": str(body["generation"]),
        "role": role,
        "started": str(started_at),
    }


def info(body, started_at, state, reason=None) -> dict:
    return {
        "sessionId": body["sessionId"],
        "generation": body["generation"],
        "state": state,
        "reason": reason,
        "startedAt": started_at,
    }


def info_of_tags(tags) -> dict:
    """Of one that is listed: by Modal's word it runs."""
    body = {"sessionId": tags["session"], "generation": int(tags["generation"])}
    return info(body, int(tags["started"]), "running")


def read_status(output: str):
    """State and reason, from what the status script has printed."""
    state, _, words = output.partition("\n")
    if state in ("none", "preparing"):
        return "queued", None
    if state == "running":
        return "running", None
    if state == "exited":
        return "exited", f"The agent ended: {words.strip()}"[:4000]
    raise ValueError("The sandbox does not answer as expected")


def ending(code: int) -> str:
    return ENDINGS.get(code, f"It ended with exit code {code}")


def scrubbed_bytes(output: str):
    """None: the copy must not become a snapshot; the control plane reads why."""
    try:
        said = json.loads(output)
    except ValueError:
        return None
    size = said.get("bytes") if isinstance(said, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def extension(started_at: int, now: int, seconds: int):
    """Seconds that it can live from now on, at most Modal's limit; and whether that is all that was asked for."""
    left = started_at // 1000 + VENDOR_SECONDS - now // 1000
    return max(0, min(seconds, left)), seconds <= left
