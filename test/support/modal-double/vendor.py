"""What Modal keeps: sandboxes as machines with real processes, images as folders, names. Injects faults."""

import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import modal_errors as exception

SCRIPT = str(Path(__file__).parent.parent / "sandbox-namespace.sh")
UP_SECONDS = 30


class Vendor:
    def __init__(self):
        self.lock = threading.RLock()
        self.folder = Path(os.environ["MODAL_DOUBLE_FOLDER"])
        self.shares = os.environ["MODAL_DOUBLE_SHARES"].split("\n")
        self.ports = []
        self.machines = {}
        self.images = {}
        self.names = {}
        self.dicts = {}
        self.faults = []
        self.calls = []
        # A machine ends with the thread that started it, so all are started by the main one.
        self.spawning = Queue()
        base = DiskImage(self.folder / "base")
        base.id = "im-base"
        self.images[base.id] = base
        self.names["gantry-sandbox"] = base.id

    @contextmanager
    def doing(self, name):
        """A fault: {on, error?, after?, delayMs?}: the call waits, or raises; `after`: it is carried out first."""
        with self.lock:
            self.calls.append(name)
            fault = next((each for each in self.faults if each["on"] == name), None)
            if fault is not None:
                if fault.get("skip", 0) > 0:
                    fault["skip"] -= 1
                    fault = None
                else:
                    self.faults.remove(fault)
        fault = fault or {}
        time.sleep(fault.get("delayMs", 0) / 1000)
        error = getattr(exception, fault["error"])("injected") if "error" in fault else None
        if error is not None and not fault.get("after"):
            raise error
        yield
        if error is not None:
            raise error

    def image(self, image_id):
        try:
            return self.images[image_id]
        except KeyError:
            raise exception.NotFoundError(f"No image {image_id}") from None

    def named(self, name):
        try:
            return self.names[name]
        except KeyError:
            raise exception.NotFoundError(f"No image named {name}") from None

    def machine(self, sandbox_id):
        try:
            return self.machines[sandbox_id]
        except KeyError:
            raise exception.NotFoundError(f"No sandbox {sandbox_id}") from None

    def running(self, tags):
        with self.lock:
            machines = [each for each in self.machines.values() if each.returncode() is None]
        return [each for each in machines if tags.items() <= each.tags.items()]

    def machine_named(self, name):
        for machine in self.running({}):
            if machine.name == name:
                return machine
        raise exception.NotFoundError(f"No running sandbox named {name}")

    def start(self, args, image_id, tags, timeout, name, block_network):
        with self.lock:
            if name is not None and any(each.name == name for each in self.running({})):
                raise exception.AlreadyExistsError(f"There is a sandbox named {name}")
            machine = Machine(self, self.image(image_id), args, tags, timeout, name, block_network)
            self.machines[machine.id] = machine
        return machine

    def copy_disk(self, machine):
        image = DiskImage(self.folder / f"image-{uuid.uuid4().hex}")
        image.folder.mkdir()
        machine.signal(signal.SIGSTOP)
        try:
            for part in ("upper", "tmp"):
                copy(machine.folder / part, image.folder / part)
        finally:
            machine.signal(signal.SIGCONT)
        return self.keep(image)

    def copy_folder(self, machine, path):
        image = FolderImage(self.folder / f"image-{uuid.uuid4().hex}.tar")
        with image.folder.open("wb") as archive:
            machine.run(["tar", "-C", path, "-cpf", "-", "."], stdout=archive)
        return self.keep(image)

    def mount(self, machine, path, image):
        assert isinstance(image, FolderImage), "the double mounts directory snapshots only"
        with image.folder.open("rb") as archive:
            # At once, as a mount is: who copies from it while it is mounted a second time finds all files.
            script = '[ ! -e "$1" ] || exit 0; mkdir -p "$1.new" && tar -C "$1.new" -xpf - && mv -T "$1.new" "$1"'
            machine.run(["sh", "-c", script, "sh", path], stdin=archive)

    def keep(self, image):
        image.delete = lambda: (self.images.pop(image.id, None), remove(image.folder))
        self.images[image.id] = image
        return image

    def close(self):
        for machine in list(self.machines.values()):
            machine.kill(137)


class DiskImage:
    def __init__(self, folder):
        self.id = f"im-{uuid.uuid4().hex}"
        self.folder = folder

    def delete(self):
        raise exception.InvalidError("The base image stays")


class FolderImage(DiskImage):
    pass


class Machine:
    def __init__(self, vendor, image, args, tags, timeout, name, block_network):
        self.id = f"sb-{uuid.uuid4().hex}"
        self.tags = tags
        self.name = name
        self.ends_at = time.time() + timeout
        self.code = None
        self.folder = vendor.folder / self.id
        self.folder.mkdir()
        for part in ("upper", "tmp"):
            copy(image.folder / part, self.folder / part)
        ports = [] if block_network else [str(port) for port in vendor.ports]
        if ports:
            (self.folder / "ports").symlink_to(vendor.folder / "ports")
        command = ["sh", SCRIPT, "start", str(self.folder), *vendor.shares, *ports, "--", *args]
        # Who waits outside for a command inside stops along with it, and must be woken and ended by itself.
        self.entered = []
        started = Queue()
        vendor.spawning.put((command, started))
        self.process = started.get()

    def returncode(self):
        if self.code is None and time.time() > self.ends_at:
            self.kill(124)
        if self.code is None and self.process.poll() is not None:
            self.end(self.process.returncode)
        return self.code

    def kill(self, code):
        if self.code is None:
            self.process.kill()
            self.process.wait()
            self.end(code)

    def end(self, code):
        self.code = code
        self.signal_entered(signal.SIGKILL)
        remove(self.folder)

    def enter(self, args, **streams):
        """Waits until it is up, as Modal does."""
        until = time.time() + UP_SECONDS
        inside = ["sh", SCRIPT, "inside", str(self.process.pid)]
        while subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
            if self.returncode() is not None:
                raise exception.ConflictError("Sandbox already finished")
            if time.time() > until:
                raise exception.TimeoutError("The sandbox does not come up")
            time.sleep(0.02)
        process = subprocess.Popen([*inside, *args], start_new_session=True, **streams)
        self.entered.append(process)
        return process

    def run(self, args, **streams):
        process = self.enter(args, stderr=subprocess.PIPE, **streams)
        _, stderr = process.communicate()
        if process.returncode != 0:
            raise exception.InternalError(f"{args}: {stderr.decode()}")

    def signal(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

        if number == signal.SIGCONT:
            self.signal_entered(number)

    def signal_entered(self, number):
        for process in self.entered:
            if process.poll() is None:
                os.kill(process.pid, number)

    def pids(self):
        pid = self.process.pid
        try:
            init = Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()
            namespace = os.readlink(f"/proc/{init}/ns/pid")
        except OSError:
            return []
        pids = [each for each in os.listdir("/proc") if each.isdigit()]
        return [int(each) for each in pids if is_in(each, namespace)]


class Process:
    def __init__(self, machine, args, timeout, text):
        pipe = subprocess.PIPE
        self.process = machine.enter(args, stdin=pipe, stdout=pipe, stderr=pipe)
        self.stdin = Writer(self.process.stdin)
        self.stdout = Reader(self.process.stdout, text)
        self.stderr = Reader(self.process.stderr, text)
        if timeout is not None:
            timer = threading.Timer(timeout, self.kill)
            timer.daemon = True
            timer.start()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def wait(self):
        return self.process.wait()


class Writer:
    """Nothing is sent before `drain`."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.buffer = b""
        self.eof = False

    def write(self, data):
        self.buffer += data
        assert len(self.buffer) <= 2 * 1024 * 1024, "Modal's buffer is full: call drain"

    def write_eof(self):
        self.eof = True

    def drain(self):
        try:
            self.pipe.write(self.buffer)
            self.pipe.flush()
            if self.eof:
                self.pipe.close()
        except BrokenPipeError:
            pass  # its end is seen elsewhere
        self.buffer = b""


class Reader:
    def __init__(self, pipe, text):
        self.pipe = pipe
        self.decoded = bytes.decode if text else bytes

    def read(self):
        return self.decoded(self.pipe.read())

    def __iter__(self):
        return iter(lambda: self.decoded(self.pipe.readline()), self.decoded(b""))


def is_in(pid, namespace):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == namespace
    except OSError:
        return False


def copy(source, target):
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)


def remove(path):
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


VENDOR = Vendor()
