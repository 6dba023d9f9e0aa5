"""Stands in for Modal's own package: the names that the app uses, with Modal's signatures, and no others."""

import pickle
import re

from modal import exception, experimental
from vendor import VENDOR, Process

__all__ = ["App", "Dict", "Image", "Sandbox", "Secret", "concurrent", "wsgi_app"]
__all__ += ["exception", "experimental"]


class App:
    def __init__(self, name):
        check_name(name)
        self.name = name
        self.app_id = None

    @staticmethod
    def lookup(name):
        app = App(name)
        app.app_id = f"ap-{name}"
        return app

    def function(self, *, image, secrets, timeout):
        return lambda work: work


def concurrent(*, max_inputs):
    return lambda work: work


def wsgi_app():
    return lambda work: work


class Secret:
    @staticmethod
    def from_name(name):
        check_name(name)


class Dict:
    """Values are pickled, as Modal's are: what is read is a copy."""

    @staticmethod
    def from_name(name, *, create_if_missing=False):
        check_name(name)
        return Dict(VENDOR.dicts.setdefault(name, {}))

    def __init__(self, entries):
        self.entries = entries

    def put(self, key, value, *, skip_if_exists=False):
        with VENDOR.doing("Dict.put"), VENDOR.lock:
            if skip_if_exists and key in self.entries:
                return False
            self.entries[key] = pickle.dumps(value)
            return True

    def get(self, key, default=None):
        with VENDOR.doing("Dict.get"), VENDOR.lock:
            return pickle.loads(self.entries[key]) if key in self.entries else default

    def contains(self, key):
        with VENDOR.doing("Dict.contains"), VENDOR.lock:
            return key in self.entries

    def pop(self, key, default):
        with VENDOR.doing("Dict.pop"), VENDOR.lock:
            return pickle.loads(self.entries.pop(key)) if key in self.entries else default


class Image:
    def __init__(self, find=None):
        self.find = find
        self.object_id = None

    @staticmethod
    def debian_slim(python_version):
        return Image()

    def env(self, vars):
        return self

    def add_local_dir(self, local_path, remote_path, *, ignore):
        return self

    @staticmethod
    def from_id(image_id):
        image = Image(lambda: image_id)
        image.object_id = image_id
        return image

    @staticmethod
    def from_name(name):
        check_name(name)
        return Image(lambda: VENDOR.named(name))

    def build(self, app):
        assert app.app_id is not None, "App has not been initialized yet"
        with VENDOR.doing("Image.build"):
            self.object_id = VENDOR.image(self.find()).id
        return self

    def publish(self, name):
        check_name(name)
        with VENDOR.doing("Image.publish"):
            VENDOR.names[name] = VENDOR.image(self.object_id).id


class Sandbox:
    def __init__(self, machine):
        self.machine = machine
        self.object_id = machine.id

    @staticmethod
    def create(
        *args, app, image, tags, timeout, name=None, cpu=None, memory=None, block_network=False
    ):
        assert app.app_id is not None and image.object_id is not None
        assert 0 < timeout <= 24 * 3600, "Modal allows 24 hours"
        assert memory is None or (len(memory) == 2 and memory[0] <= memory[1])
        assert sum(len(each) for each in args) < 2**16, "ARG_MAX"
        for each in [*tags.keys(), *tags.values()]:
            assert re.fullmatch(r"[a-zA-Z0-9._-]{1,63}", each), f"Invalid tag: {each}"
        if name is not None:
            check_name(name)
        with VENDOR.doing("Sandbox.create"):
            return Sandbox(VENDOR.start(args, image.object_id, tags, timeout, name, block_network))

    @staticmethod
    def from_id(sandbox_id):
        with VENDOR.doing("Sandbox.from_id"):
            return Sandbox(VENDOR.machine(sandbox_id))

    @staticmethod
    def from_name(app_name, name):
        with VENDOR.doing("Sandbox.from_name"):
            return Sandbox(VENDOR.machine_named(name))

    @staticmethod
    def list(*, app_id, tags):
        assert app_id is not None
        with VENDOR.doing("Sandbox.list"):
            return iter([Sandbox(machine) for machine in VENDOR.running(tags)])

    def get_tags(self):
        with VENDOR.doing("Sandbox.get_tags"):
            return dict(self.machine.tags)

    def poll(self):
        with VENDOR.doing("Sandbox.poll"):
            return self.machine.returncode()

    def exec(self, *args, timeout=None, text=True, bufsize=-1):
        assert all(isinstance(each, str) for each in args)
        assert bufsize == -1 or text
        with VENDOR.doing("Sandbox.exec"):
            return Process(self.machine, args, timeout, text)

    def terminate(self, *, wait=False):
        with VENDOR.doing("Sandbox.terminate"):
            self.machine.kill(137)
            return 137 if wait else None

    def snapshot_filesystem(self, timeout=55, *, ttl=30 * 24 * 3600):
        with VENDOR.doing("Sandbox.snapshot_filesystem"):
            return Image.from_id(VENDOR.copy_disk(self.machine).id)

    def snapshot_directory(self, path, *, timeout=55, ttl=30 * 24 * 3600):
        with VENDOR.doing("Sandbox.snapshot_directory"):
            return Image.from_id(VENDOR.copy_folder(self.machine, path).id)

    def mount_image(self, path, image):
        assert image.object_id is not None, "only Images that are built or referenced by id"
        with VENDOR.doing("Sandbox.mount_image"):
            VENDOR.mount(self.machine, path, VENDOR.image(image.object_id))


def check_name(name):
    if len(name) > 64 or not re.fullmatch(r"[a-zA-Z0-9-_.]+", name) or name.startswith("im-"):
        raise exception.InvalidError(f"Invalid name: {name!r}")
