"""Modal on this machine: runs the real app.py with the stand-in for its package. Ends with its standard input."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

HERE = Path(__file__).parent
APP = HERE.parent.parent.parent / "sandbox-agent" / "modal" / "app.py"
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(APP.parent)]

from vendor import VENDOR  # noqa: E402


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


class Control(BaseHTTPRequestHandler):
    """For the tests."""

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = json.dumps(COMMANDS[self.path[1:]](order)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def state(order):
    machines = [
        {"id": each.id, "tags": each.tags, "pid": each.process.pid, "folder": str(each.folder)}
        for each in VENDOR.running({})
    ]
    known = {"images": list(VENDOR.images), "names": VENDOR.names, "calls": VENDOR.calls}
    return {"machines": machines, **known}


def vanish(order):
    VENDOR.machines.pop(order["id"]).kill(137)


def forget_entries(order):
    for entries in VENDOR.dicts.values():
        entries.clear()


COMMANDS = {
    "state": state,
    "fault": lambda order: VENDOR.faults.append(order),
    "ports": lambda order: VENDOR.ports.append(order["port"]),
    "kill": lambda order: VENDOR.machine(order["id"]).kill(137),
    "vanish": vanish,
    "pause": lambda order: VENDOR.machine(order["id"]).signal(signal.SIGSTOP),
    "wake": lambda order: VENDOR.machine(order["id"]).signal(signal.SIGCONT),
    "forget-entries": forget_entries,
}


def load_app():
    spec = importlib.util.spec_from_file_location("app", APP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.web()


def end_with_input():
    sys.stdin.buffer.read()
    VENDOR.spawning.put(None)


web = make_server("127.0.0.1", 0, load_app(), Server, Quiet)
control = ThreadingHTTPServer(("127.0.0.1", 0), Control)
control.daemon_threads = True
for work in (web.serve_forever, control.serve_forever, end_with_input):
    threading.Thread(target=work, daemon=True).start()
ports = {"web": web.server_port, "control": control.server_port}
print(json.dumps(ports), file=sys.stderr, flush=True)

while (order := VENDOR.spawning.get()) is not None:
    command, started = order
    quiet = subprocess.DEVNULL
    started.put(subprocess.Popen(command, stdin=quiet, stdout=quiet))
VENDOR.close()
shutil.rmtree(VENDOR.folder, ignore_errors=True)
os._exit(0)
