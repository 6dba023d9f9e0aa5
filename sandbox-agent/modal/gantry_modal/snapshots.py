"""Snapshots: files only, of a scrubbed copy.

A draft of the sandbox's file system is booted without a network; in it the files are scrubbed and searched for
secrets; the folders that are left become an image of their own, which is found by its name: entries of a modal.Dict go
after a week without use. The draft goes at once, or after an hour if this is cut off.
"""

import time

import modal
from modal.exception import Error, NotFoundError
from modal.experimental import image_delete

from . import states
from .refusal import Refusal
from .sandboxes import now_ms, run

DRAFT_SECONDS = 3600
SCRATCH_SECONDS = 600
VENDOR_SNAPSHOT_SECONDS = 110
GATHER_SECONDS = 100
# Longer than all its steps: whoever finds it older takes over.
LEASE_MS = 480_000
JOIN_MS = 100_000


class Snapshots:
    """`records`: a modal.Dict, by the snapshot's name: `takenBy` while it is taken, then what was taken."""

    def __init__(self, app, records, sandboxes):
        self.app = app
        self.records = records
        self.sandboxes = sandboxes

    def find(self, body):
        """The image to start from."""
        name = states.snapshot_name(body)
        what = f"snapshot \"{body['snapshotId']}\""
        refusal = Refusal("not_found", f"Cannot start from {what}: not found")
        if self.was_deleted(name):
            raise refusal
        try:
            return modal.Image.from_name(name).build(self.app)
        except NotFoundError:
            raise refusal from None

    def take(self, body):
        name = states.snapshot_name(body)
        lease = {"lease": now_ms() + LEASE_MS}
        until = now_ms() + JOIN_MS
        while not self.records.put(name, lease, skip_if_exists=True):
            record = self.records.get(name) or {}
            if "bytes" in record:
                taken = {name: record[name] for name in ("sessionId", "bytes")}
                return {**taken, "scrubbed": None}
            if record.get("lease", 0) < now_ms():
                self.release(name, record)
            elif now_ms() > until:
                raise Refusal("sandbox_unavailable", "The snapshot is still being taken")
            else:
                time.sleep(0.5)
        try:
            return self.make(body, name)
        finally:
            self.release(name, lease)

    def make(self, body, name):
        self.refuse_deleted(body, name)
        done = self.scrub(body, self.source(body))
        if done["image"] is None:
            return {"sessionId": body["sessionId"], "bytes": None, "scrubbed": done["scrubbed"]}
        image_id = done["image"].object_id
        done["image"].publish(name)
        taken = {"sessionId": body["sessionId"], "bytes": done["bytes"]}
        self.records.put(name, {**taken, "imageId": image_id})
        try:
            self.refuse_deleted(body, name)
        except Refusal:
            self.forget(image_id)
            self.records.pop(name, None)
            raise
        return {**taken, "scrubbed": None}

    def release(self, name, lease):
        """Unless it has become something else."""
        if self.records.get(name) == lease:
            self.records.pop(name, None)

    def refuse_deleted(self, body, name):
        if self.was_deleted(name):
            raise Refusal("not_found", f"Snapshot \"{body['snapshotId']}\" was deleted")

    def delete(self, body):
        name = states.snapshot_name(body)
        self.records.put(f"{name}/deleted", True)
        record = self.records.get(name)
        if record is None:
            try:
                self.forget(modal.Image.from_name(name).build(self.app).object_id)
            except NotFoundError:
                pass
        elif "imageId" in record:
            self.forget(record["imageId"])
            self.records.pop(name, None)
        return {}

    def source(self, body):
        name = states.name_of(body)
        record = self.sandboxes.records.get(name)
        sandbox = self.sandboxes.find(name, record)
        if sandbox is None or not record or record["organisationId"] != body["organisationId"]:
            raise Refusal("not_found", "Cannot take a snapshot: there is no such sandbox")
        state = self.sandboxes.look(sandbox, body, 0)["state"]
        if state == "queued":
            raise Refusal("sandbox_unavailable", "Cannot take a snapshot: the sandbox still starts")
        if state == "exited":
            raise Refusal("wrong_state", "Cannot take a snapshot: the sandbox has ended")
        return sandbox

    def scrub(self, body, sandbox):
        draft = sandbox.snapshot_filesystem(timeout=VENDOR_SNAPSHOT_SECONDS, ttl=DRAFT_SECONDS)
        scratch = None
        try:
            scratch = modal.Sandbox.create(
                *("sleep", str(SCRATCH_SECONDS)),
                app=self.app,
                image=draft,
                tags=states.tags_of(body, "scrub", now_ms()),
                timeout=SCRATCH_SECONDS,
                block_network=True,
            )
            return self.scrub_copy(body["scrub"], scratch)
        finally:
            if scratch is not None:
                quietly(scratch.terminate)
            self.forget(draft.object_id)

    def scrub_copy(self, order, scratch):
        scrubbed = run(scratch, order["command"], order["input"], order["seconds"])
        size = states.scrubbed_bytes(scrubbed["stdout"]) if scrubbed["exitCode"] == 0 else None
        if size is None:
            return {"image": None, "bytes": None, "scrubbed": scrubbed}
        gathered = run(scratch, ["/bin/bash", "-c", order["gather"]], "", GATHER_SECONDS)
        if gathered["exitCode"] != 0:
            why = "gathering its files has failed"
            raise Refusal("sandbox_unavailable", f"Cannot take the snapshot: {why}")
        folder = order["folder"]
        image = scratch.snapshot_directory(folder, timeout=VENDOR_SNAPSHOT_SECONDS, ttl=None)
        return {"image": image, "bytes": size, "scrubbed": None}

    def was_deleted(self, name) -> bool:
        return self.records.contains(f"{name}/deleted")

    def forget(self, image_id):
        quietly(lambda: image_delete(image_id))


def quietly(work):
    """What cannot be cleared away now has a time limit of its own, or costs only its storage."""
    try:
        work()
    except Error as error:
        print(f"Cannot clear away: {type(error).__name__}: {error}")
