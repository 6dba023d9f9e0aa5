"""The sandboxes themselves. Every call may be repeated, and may have been cut off anywhere before."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import modal
from modal.exception import AlreadyExistsError, Error, NotFoundError, ResourceExhaustedError

from . import states
from .refusal import Refusal

KEEP = (Path(__file__).parent / "keep.sh").read_text("utf-8")
EXTEND = 'umask 077; cd /var/lib/gantry && echo $(($(date +%s) + $1)) > new && mv new deadline'
ALREADY_LAUNCHED = 71
STATUS_SECONDS = 15
# Who waits less asks again, and finds it going on.
RESTORE_SECONDS = 500
LIST_THREADS = 8
LOOKS = 3


class Sandboxes:
    """`records`: a modal.Dict. An entry goes after a week without use, a sandbox after a day."""

    def __init__(self, app, records, image: str, cpu: float):
        self.app = app
        self.records = records
        self.image = image
        self.cpu = cpu

    def create(self, body, find_snapshot):
        """`find_snapshot`: gives the image of the snapshot to start from, or refuses."""
        name = states.name_of(body)
        self.records.put(name, {"organisationId": body["organisationId"]}, skip_if_exists=True)
        record = self.records.get(name)
        if record["organisationId"] != body["organisationId"]:
            raise Refusal("wrong_state", "The session is another organisation's")
        if self.was_stopped(name):
            return states.info(body, record.get("startedAt", now_ms()), "exited", "It was stopped")
        sandbox = self.find(name, record)
        if sandbox is None and "sandboxId" in record:
            return states.info(body, record["startedAt"], "exited", "Modal has lost it")
        is_restored = body["snapshotId"] is not None and "launched" not in record
        restored = find_snapshot(body) if is_restored else None
        sandbox = sandbox or self.make(body)
        record = self.remember(name, record, sandbox)
        # A stop that came meanwhile has seen no sandbox yet.
        if self.was_stopped(name):
            sandbox.terminate(wait=True)
            return states.info(body, record["startedAt"], "exited", "It was stopped")
        if "launched" not in record and sandbox.poll() is None:
            self.launch(sandbox, body, restored)
            self.records.put(name, {**record, "launched": True})
        return self.look(sandbox, body, record["startedAt"])

    def get(self, body):
        name = states.name_of(body)
        record = self.records.get(name)
        sandbox = self.find(name, record)
        if sandbox is None or (self.was_stopped(name) and sandbox.poll() is not None):
            raise Refusal("not_found", "There is no such sandbox")
        return self.look(sandbox, body, started_at(record, sandbox))

    def list(self, body):
        tags = {"gantry": body["label"], "organisation": body["organisationId"], "role": "session"}
        with ThreadPoolExecutor(LIST_THREADS) as threads:
            found = threads.map(tags_or_none, self.listed(tags))
        return {"sandboxes": [states.info_of_tags(each) for each in found if each]}

    def extend(self, body):
        name = states.name_of(body)
        record = self.records.get(name)
        sandbox = self.find(name, record)
        if sandbox is None or sandbox.poll() is not None:
            raise Refusal("not_found", "Cannot extend the sandbox: it is not running")
        started = started_at(record, sandbox)
        seconds, whole = states.extension(started, now_ms(), body["seconds"])
        command = ["/bin/bash", "-c", EXTEND, "extend", str(seconds)]
        if run(sandbox, command, "", STATUS_SECONDS)["exitCode"] != 0:
            raise Refusal("sandbox_unavailable", "Cannot extend the sandbox: it does not answer")
        if not whole:
            why = f"Modal ends it in {seconds} s, a day after its start"
            raise Refusal("wrong_state", f"Cannot extend it by {body['seconds']} s: {why}")
        return {}

    def stop(self, body):
        """Also copies for snapshots, and whatever else has its tags."""
        name = states.name_of(body)
        self.records.put(f"{name}/stopped", True)
        tags = {"session": body["sessionId"], "generation": str(body["generation"])}
        for sandbox in [self.find(name, self.records.get(name)), *self.listed(tags)]:
            if sandbox is not None:
                sandbox.terminate(wait=True)
        return {}

    def check(self, body):
        name = body["image"] or self.image
        try:
            found = self.resolve(name) is not None
        except Refusal:
            found = False
        sandboxes = len(list(self.listed({"gantry": body["label"]})))
        return {"image": {"name": name, "found": found}, "sandboxes": sandboxes}

    def find(self, name, record):
        """By its id, also after its end; else by its name, which is gone with it."""
        try:
            if record and "sandboxId" in record:
                return modal.Sandbox.from_id(record["sandboxId"])
            return modal.Sandbox.from_name(self.app.name, name)
        except NotFoundError:
            return None

    def resolve(self, name: str):
        """An image that is there; nothing is built."""
        image = modal.Image.from_id(name) if name.startswith("im-") else modal.Image.from_name(name)
        try:
            return image.build(self.app)
        except NotFoundError:
            raise Refusal("unprocessable", f'Cannot start from image "{name}": not found') from None

    def was_stopped(self, name) -> bool:
        return self.records.contains(f"{name}/stopped")

    def make(self, body):
        name = states.name_of(body)
        memory = body["memoryMb"]
        limits = {} if memory is None else {"memory": (memory, memory)}
        try:
            return modal.Sandbox.create(
                *("/bin/bash", "-c", KEEP, "keep", str(body["lifetimeSeconds"])),
                app=self.app,
                name=name,
                image=self.resolve(body["image"] or self.image),
                tags=states.tags_of(body, "session", now_ms()),
                timeout=states.VENDOR_SECONDS,
                cpu=self.cpu,
                **limits,
            )
        except AlreadyExistsError:
            return modal.Sandbox.from_name(self.app.name, name)

    def remember(self, name, record, sandbox):
        """By its id it can be asked for after its end, too."""
        if "sandboxId" in record:
            return record
        known = {"sandboxId": sandbox.object_id, "startedAt": started_at(record, sandbox)}
        self.records.put(name, {**record, **known})
        return {**record, **known}

    def launch(self, sandbox, body, restored):
        if restored is not None:
            restore = body["restore"]
            sandbox.mount_image(restore["folder"], restored)
            command = ["/bin/bash", "-c", restore["script"]]
            done = run(sandbox, command, "", RESTORE_SECONDS)
            if done["exitCode"] != 0:
                raise Refusal("sandbox_unavailable", f"Cannot restore the files: {done['stderr']}")
        process = sandbox.exec("/bin/bash", "-c", body["launch"]["script"], bufsize=1)
        give(process, body["launch"]["input"])
        for _ in process.stdout:
            return  # once it has said something it is left to itself: it becomes the agent
        code = process.wait()
        if code != ALREADY_LAUNCHED:
            why = f"its launch ended with code {code}"
            raise Refusal("sandbox_unavailable", f"Cannot start the agent: {why}")

    def look(self, sandbox, body, started_at):
        """Asked again, if it has not answered: it may be about to end."""
        failure = None
        for _ in range(LOOKS):
            code = sandbox.poll()
            if code is not None:
                return states.info(body, started_at, "exited", states.ending(code))
            try:
                said = run(sandbox, ["/bin/bash", "-c", body["status"]], "", STATUS_SECONDS)
                return states.info(body, started_at, *states.read_status(said["stdout"]))
            except (Error, ValueError) as error:
                failure = error
                time.sleep(0.3)
        raise Refusal("sandbox_unavailable", f"Cannot look into the sandbox: {failure}")

    def listed(self, tags):
        return modal.Sandbox.list(app_id=self.app.app_id, tags=tags)


def started_at(record, sandbox) -> int:
    if record and "startedAt" in record:
        return record["startedAt"]
    return int(sandbox.get_tags()["started"])


def tags_or_none(sandbox):
    try:
        return sandbox.get_tags()
    except NotFoundError:
        return None


def run(sandbox, command, text, seconds):
    """To its end. As bytes: what it prints may be the end of a log, cut within a character."""
    process = sandbox.exec(*command, timeout=seconds, text=False)
    give(process, text)
    stdout = process.stdout.read().decode("utf-8", "replace")
    stderr = process.stderr.read().decode("utf-8", "replace")
    return {"exitCode": process.wait(), "stdout": stdout, "stderr": stderr[-2000:]}


CHUNK = 512 * 1024


def give(process, text):
    """On standard input: what is in an argument or in the environment can be read by others."""
    content = text.encode()
    for at in range(0, len(content), CHUNK):
        process.stdin.write(content[at : at + CHUNK])
        process.stdin.drain()
    process.stdin.write_eof()
    process.stdin.drain()


def now_ms() -> int:
    return int(time.time() * 1000)


def translate(error):
    """Modal's own errors. None: not one of them."""
    if isinstance(error, ResourceExhaustedError):
        return Refusal("rate_limited", f"Modal limits our requests: {error}")
    if isinstance(error, Error):
        return Refusal("sandbox_unavailable", f"Modal has failed: {type(error).__name__}: {error}")
    return None
