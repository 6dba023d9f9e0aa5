"""Gantry's sandboxes at Modal: `modal deploy app.py`. See README.md."""

import os
from pathlib import Path

import modal

NAME = os.environ.get("GANTRY_MODAL_APP", "gantry")
IMAGE = os.environ.get("GANTRY_MODAL_IMAGE", "gantry-sandbox")
CPU = float(os.environ.get("GANTRY_MODAL_CPU", "1"))
PACKAGE = Path(__file__).parent / "gantry_modal"

app = modal.App(NAME)
settings = {"GANTRY_MODAL_APP": NAME, "GANTRY_MODAL_IMAGE": IMAGE, "GANTRY_MODAL_CPU": str(CPU)}
web_image = (
    modal.Image.debian_slim(python_version="3.12")
    .env(settings)
    .add_local_dir(PACKAGE, "/root/gantry_modal", ignore=["**/__pycache__"])
)


@app.function(image=web_image, secrets=[modal.Secret.from_name("gantry-modal")], timeout=600)
@modal.concurrent(max_inputs=50)
@modal.wsgi_app()
def web():
    from gantry_modal.auth import secrets_of
    from gantry_modal.sandboxes import Sandboxes, translate
    from gantry_modal.shapes import SHAPES
    from gantry_modal.snapshots import Snapshots
    from gantry_modal.web import create_web

    ours = modal.App.lookup(NAME)
    records = modal.Dict.from_name(f"{NAME}-sandboxes", create_if_missing=True)
    sandboxes = Sandboxes(ours, records, IMAGE, CPU)
    taken = modal.Dict.from_name(f"{NAME}-snapshots", create_if_missing=True)
    snapshots = Snapshots(ours, taken, sandboxes)

    calls = {
        "create": lambda body: sandboxes.create(body, snapshots.find),
        "get": sandboxes.get,
        "list": sandboxes.list,
        "extend": sandboxes.extend,
        "stop": sandboxes.stop,
        "check": lambda body: {"version": SHAPES["version"], **sandboxes.check(body)},
        "snapshot": snapshots.take,
        "delete-snapshot": snapshots.delete,
    }
    return create_web(calls, secrets_of(os.environ), translate)
